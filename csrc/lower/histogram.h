// Counting elements in bins.
#pragma once
#include "lower/pointwise.h"

namespace tiny::lower {

Tensor histc(Args& a);               // (self, bins, min, max)
Results histogram_bins(Args& a);     // histogram.bins_tensor(self, bins, *, weight?, density) -> hist, bin_edges
Results histogram_count(Args& a);    // histogram.bin_ct(self, bins, *, range?, weight?, density)
Results histogramdd_edges(Args& a);  // _histogramdd_bin_edges(self, bins, *, range?, weight?, density) -> edges of each dimension
Tensor histogramdd_count(Args& a);   // _histogramdd_from_bin_cts(self, bins, *, range?, weight?, density)
Tensor histogramdd_bins(Args& a);    // _histogramdd_from_bin_tensors(self, bins, *, weight?, density)

}  // namespace tiny::lower
