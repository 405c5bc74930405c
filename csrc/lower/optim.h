// Fused optimizers and gradient scaling. Each returns the new values of the tensors that the schema writes, lists one after another in the
// schema's order; a tensor that does not change is returned as it came. A found_inf that holds 1 leaves everything unchanged.
#pragma once
#include "lower/args.h"

namespace tiny::lower {

Results fused_adam(Args& a);       // also tensor_lr: the learning rate is a number or a 0-d tensor
Results fused_adamw(Args& a);
Results fused_sgd(Args& a);
Results fused_adagrad(Args& a);    // this overload also writes the steps, unchanged
Results fused_adagrad_tensor_lr(Args& a);
Results amp_unscale(Args& a);      // _amp_foreach_non_finite_check_and_unscale_
Results amp_update_scale(Args& a); // _amp_update_scale_ -> scale, growth_tracker

}  // namespace tiny::lower
