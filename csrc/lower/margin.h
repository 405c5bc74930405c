// Losses with a margin between classes.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor multi_margin_loss(Args& a);             // (self, target, p, margin, weight?, reduction)
Tensor multi_margin_loss_backward(Args& a);    // (grad_output, self, target, p, margin, weight?, reduction)
Results multilabel_margin_loss(Args& a);       // (self, target, reduction) -> loss, is_target
Tensor multilabel_margin_loss_backward(Args& a);  // (grad_output, self, target, reduction, is_target)

}  // namespace tiny::lower
