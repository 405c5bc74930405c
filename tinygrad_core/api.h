// The one header of the core that csrc includes.
#pragma once
#include "base/error.h"
#include "engine/engine.h"
#include "engine/record_only.h"
#include "engine/storage.h"
#include "tensor/linalg.h"
#include "tensor/spectral.h"
#include "tensor/tensor.h"
#include "tensor/trace.h"
