#pragma once

namespace tiny {

class Device;

/// Tells the device that work is about to be submitted by a thread that will wait for it: what sleeps there may wake meanwhile.
void get_ready(Device& device);

}  // namespace tiny
