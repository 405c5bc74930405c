// HostDevice: a device whose memory is the host's and whose queue is a thread of this process. CPU, REF and NULL differ in what
// running a kernel means.
#pragma once
#include <deque>
#include <exception>

#include "base/event.h"
#include "runtime/device.h"

namespace tiny {

class HostDevice : public Device {
 public:
  uint64_t submit(std::unique_ptr<Submission> work, bool inline_if_idle) override;
  void wait(uint64_t ticket) override;
  bool done(uint64_t ticket) override { return completed_.load(std::memory_order_acquire) >= ticket; }
  uint64_t last_ticket() override { return last_.load(std::memory_order_acquire); }
  void copy_in(Buffer* dst, size_t offset, const void* src, size_t n) override;
  void copy_out(void* dst, Buffer* src, size_t offset, size_t n) override;
  bool host_visible() const override { return true; }
  void memory_info(size_t* free_bytes, size_t* total_bytes) override;
  /// Somebody is about to submit work and wait for it.
  virtual void get_ready() {}

 protected:
  HostDevice(std::string name, int index);
  /// Runs a kernel to its end. Called in queue order, by one thread at a time.
  virtual void run_kernel(Executable& kernel, void* const* buffers, const uint64_t* scalars) = 0;
  /// Runs launches that do not depend on each other: one after the other unless overridden.
  virtual void run_batch(std::span<const Launch> batch, const Submission& work);
  void run_launch(const Launch& launch, const Submission& work);
  /// Work begins, or has ended, that a thread runs by itself since it waits for it.
  virtual void waited_for(bool begins) { (void)begins; }

  void* raw_alloc(size_t n) override;
  void raw_free(void* p, size_t n) override;
  void settle(uint64_t ticket) override;
  void before_fork() override;
  void after_fork(bool in_child) override;
  void stop() override;
  /// Microseconds that a waiting thread spins before it sleeps; 0 on a machine with one processor.
  int spin_micros() const { return spin_micros_; }

 private:
  struct Item {
    uint64_t ticket;
    std::unique_ptr<Submission> work;
  };
  bool on_queue() const;                       // is this the thread that runs the queue's work now?
  bool take(Item* item, uint64_t last_wanted); // the next item if nobody runs one
  void execute(Item item, bool waited);
  void wait_for(uint64_t ticket, bool interruptible);
  void run(const Submission& work);
  void queue_loop();
  bool start_queue();

  // mutex_ guards queue_, fault_ and every change of the atomics here.
  std::mutex mutex_;
  std::deque<Item> queue_;
  std::exception_ptr fault_;                   // the first that nobody was told of, and the ticket of its work
  uint64_t fault_ticket_ = 0;
  std::atomic<uint64_t> last_{0}, completed_{0};
  std::atomic<size_t> queued_{0};              // queue_.size()
  std::atomic<bool> busy_{false};              // a thread runs an item: the queue's own, or one that called submit() or wait()
  std::atomic<bool> stopping_{false};
  bool started_ = false;
  int spin_micros_;
  Event work_, done_;
};

}  // namespace tiny
