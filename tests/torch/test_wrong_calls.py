"""Wrong calls: the device raises what the CPU raises. A table of expressions; f, h, i, b make ones of float32, bfloat16, int64 and bool."""
import re

import pytest
import torch
import torch.nn.functional as F

POINTWISE = """
f(2) + f(3)                           | f(2, 3) * f(2)                        | f(3).sub_(f(2, 3))
f(2).div_(f(3))                       | torch.add(i(2), i(2), alpha=0.5)      | torch.sub(i(2), i(2), alpha=1.5)
i(2).add_(f(2))                       | i(2).mul_(0.5)                        | i(2).div_(2)
b(2) - b(2)                           | -b(2)                                 | torch.sub(b(2), b(2))
b(2).add_(i(2))                       | torch.rsub(b(2), b(2))                | torch.add(f(2), b(2), alpha='x')
f(2) & f(2)                           | torch.bitwise_or(f(2), i(2))          | ~f(2)
f(2) ^ 1                              | f(2) << f(2)                          | torch.bitwise_not(f(2))
torch.bitwise_and(f(2), i(2))         | torch.bitwise_left_shift(f(2), f(2))  | torch.gcd(f(2), f(2))
i(2) ** -1                            | i(2).pow_(0.5)                        | torch.pow(i(2), i(3))
torch.sqrt(i(2), out=i(2))            | i(2).sqrt_()                          | i(2).exp_()
i(2).sigmoid_()                       | torch.sin(f(2), out=b(2))             | torch.sqrt('x')
torch.clamp(f(2))                     | torch.clamp(f(2), f(3))               | f(2).clamp_(f(3), f(2))
torch.clamp(f(2), min=f(2), max=1.0)  | torch.maximum(f(2), f(3))             | torch.minimum(f(2))
torch.where(f(2), f(2), f(2))         | torch.where(b(2), f(3), f(2))         | torch.where(b(2, 3), f(2), f(3))
torch.lerp(f(2), f(3), 0.5)           | torch.lerp(f(2), i(2), 0.5)           | torch.lerp(i(2), i(2), 0.5)
torch.addcmul(f(2), f(3), f(2))       | torch.addcdiv(i(2), i(2), i(2))       | torch.addcmul(f(2), f(2))
f(2).addcmul_(f(4, 2), f(2))          | torch.addcdiv(f(2), f(3), f(2))       | torch.atan2(f(2), f(3))
torch.hypot(i(2), i(2))               | torch.copysign(f(2), f(3))            | torch.nextafter(i(2), i(2))
torch.heaviside(f(2), i(2))           | torch.logaddexp(i(2), i(2))           | torch.fmod(f(2), f(3))
torch.remainder(f(2), f(3))           | f(2).remainder_(f(2, 2))              | torch.floor_divide(f(2), f(3))
torch.div(f(2), f(2), rounding_mode='up') | i(2).floor_divide_(0.5)           | torch.xlogy(f(2), f(3))
torch.eq(f(2), f(3))                  | f(2).lt_(f(3))                        | torch.gt(f(2), f(2), out=f(3, 3).t()[:, 0:2][0:1])
torch.isin(f(2), 'x')                 | torch.logical_and(f(2), f(3))         | torch.logical_not(f(2), out=3)
f(2).fill_(f(2))                      | torch.zeros(2, dtype=torch.uint8, device=D).fill_(300) | i(2).fill_(1e30)
f(2).masked_fill_(f(2), 1)            | f(2).masked_fill(b(3), 1)             | i(2).masked_fill(b(2), f(2))
f(2).masked_fill_(b(2), 1j)           | i(2).masked_fill_(b(2), 0.5)          | torch.nan_to_num(f(2), nan='x')
torch.round(i(2), decimals=1)         | torch.round(b(2))                     | torch.floor(b(2))
torch.sign(torch.ones(2, dtype=torch.complex64, device=D)) | torch.signbit(torch.ones(2, dtype=torch.complex64, device=D))
torch.frac(b(2))
"""
FUNCTIONS = """
F.gelu(i(2))                          | F.gelu(f(2), approximate='x')         | F.elu(i(2))
F.elu_(f(2), alpha='x')               | F.leaky_relu(i(2))                    | F.hardtanh(f(2), 1.0, -1.0)
F.hardtanh(b(2))                      | F.hardswish(i(2))                     | F.hardsigmoid(i(2))
F.softplus(i(2))                      | F.softshrink(f(2), -1.0)              | F.hardshrink(i(2))
F.glu(f(3))                           | F.glu(f(2, 4), 2)                     | F.glu(torch.tensor(1.0, device=D))
F.prelu(f(2, 3), f(2))                | F.prelu(f(2, 3), i(1))                | F.prelu(f(2, 3), f(2, 2))
F.silu(i(2))                          | F.mish(i(2))                          | F.logsigmoid(i(2))
F.threshold(f(2), 'x', 1)             | F.relu(b(2))                          | F.relu6(b(2))
F.softmax(f(2), 2)                    | F.softmax(i(2), 0)                    | torch.log_softmax(f(2, 3), -3)
torch.softmax(i(2), 0)                | F.log_softmax(b(2), 0)                | torch.softmax(f(2), 0, dtype='x')
F.dropout(f(2), 1.5)                  | F.dropout(f(2), -0.1)                 | torch.native_dropout(i(2), 0.5, True)
F.mse_loss(f(2), f(3))                | F.mse_loss(i(2), i(2))                | F.mse_loss(f(2), f(2), reduction='x')
F.l1_loss(f(2), f(3))                 | F.smooth_l1_loss(f(2), f(2), beta=-1.0) | F.huber_loss(f(2), f(2), delta=0.0)
F.binary_cross_entropy(f(2), f(3))    | F.binary_cross_entropy(i(2), i(2))    | F.binary_cross_entropy_with_logits(f(2), f(3))
F.nll_loss(f(2, 3), i(3))             | F.nll_loss(f(2, 3), f(2))             | F.nll_loss(f(2, 3), i(2), weight=f(2))
F.nll_loss(f(2, 3, 4, 4), i(2, 3, 4)) | F.cross_entropy(f(2, 3), i(4))        | F.cross_entropy(f(2, 3), f(3, 2))
F.cross_entropy(f(2, 3), i(2), label_smoothing=2.0) | F.nll_loss(f(2), i(2))  | F.nll_loss(i(2, 3), i(2))
F.kl_div(f(2), f(3))                  | F.layer_norm(f(2, 3), (4,))           | F.layer_norm(f(2, 3), (3,), f(4))
F.layer_norm(f(2, 3), ())             | F.layer_norm(i(2, 3), (3,))           | F.layer_norm(f(2, 3), (3,), None, f(2))
F.group_norm(f(2, 3), 2)              | F.group_norm(f(2), 1)                 | F.group_norm(f(2, 4), 2, f(3))
F.batch_norm(f(2, 3), f(2), f(2))     | F.batch_norm(f(1, 3), f(3), f(3), training=True) | F.batch_norm(f(2, 3), None, None)
F.batch_norm(f(2, 3), f(3), f(2))     | F.batch_norm(f(2, 3), f(3), f(3), f(4)) | F.batch_norm(i(2, 3), f(3), f(3))
F.rms_norm(f(2, 3), (2,))             | F.instance_norm(f(2, 3))              | F.local_response_norm(f(2, 3), 0)
F.pad(f(2), (1, 2, 3))                | F.pad(f(2), (1, 1), mode='reflect')   | F.pad(f(1, 2), (2, 2), mode='reflect')
F.pad(f(1, 2), (-2, -1))              | F.pad(f(1, 2), (1, 1, 1, 1), mode='replicate') | F.pad(f(2), (1, 1), mode='x')
F.pixel_shuffle(f(1, 3, 2, 2), 2)     | F.pixel_shuffle(f(2, 2), 2)           | F.pixel_unshuffle(f(1, 1, 3, 3), 2)
F.channel_shuffle(f(1, 3, 2, 2), 2)   | torch.prelu(f(2), f(0))               | F.normalize(i(2, 3))
"""
REDUCTIONS = """
f(2).sum(3)                           | f(2, 3).sum((0, 0))                   | f(2, 3).sum(0, dtype='x')
f(2).mean(1)                          | i(2).mean()                           | b(2, 3).mean(0)
f(2, 3).prod(2)                       | f(2, 3).amax(5)                       | f(0, 3).amax(0)
f(0).max()                            | f(0).min()                            | f(2, 0).max(1)
f(0).argmax()                         | f(2, 0).argmin(1)                     | f(2, 3).argmax(2)
f(2, 3).all(-3)                       | f(2).any(1)                           | f(2).std(1)
i(2).std()                            | i(2).var(0)                           | f(2, 3).var((0, 5))
torch.var_mean(i(2))                  | torch.std_mean(f(2), 3)               | f(2).logsumexp(1)
f(2).norm(dim=4)                      | torch.linalg.vector_norm(i(2))        | f(2, 3).norm('x')
torch.count_nonzero(f(2), 4)          | torch.nansum(f(2), 4)                 | f(2).cumsum(1)
f(2).cumprod(-2)                      | f(2).cummax(1)                        | f(2).logcumsumexp(1)
i(2).logcumsumexp(0)                  | torch.trace(f(2))                     | torch.trace(f(2, 2, 2))
torch.aminmax(f(0))                   | torch.aminmax(f(2), dim=3)            | f(2).median(1)
f(2).kthvalue(3)                      | f(2).kthvalue(0)                      | f(2, 3).kthvalue(1, 4)
f(2).topk(3)                          | f(2).topk(-1)                         | f(2, 3).topk(1, dim=2)
f(2).sort(1)                          | f(2).sort(stable=2)                   | f(2, 3).argsort(4)
f(2).mode(1)                          | torch.renorm(f(2), 2, 0, 1)           | torch.renorm(f(2, 2), -1, 0, 1)
torch.multinomial(f(3), 4)            | torch.multinomial(i(3), 1)            | torch.multinomial(f(2, 2, 2), 1)
torch.tril(f(2))                      | torch.triu(f(3))                      | torch.flip(f(2), (0, 0))
torch.flip(f(2), (3,))                | torch.roll(f(2), (1, 2), 0)           | torch.roll(f(2, 3), 1, 5)
torch.searchsorted(f(2, 3), f(3, 3))  | torch.searchsorted(f(2), f(3), side='x') | torch.bucketize(f(2), f(2, 2))
torch.sum(f(2, 3), 0, out=i(3))       | torch.mean(f(2), 0, out=f(2).double()) | torch.var(f(2), 0, out=i(1))
"""
PRODUCTS = """
torch.mm(f(2, 3), f(2, 3))            | torch.mm(f(2), f(2, 3))               | torch.mm(f(2, 3), i(3, 2))
torch.mm(f(2, 3), h(3, 2))            | torch.mm(b(2, 2), b(2, 2))            | f(2, 3) @ f(4)
f(2, 2, 3) @ f(3, 3, 2)               | torch.bmm(f(2, 3), f(2, 3))           | torch.bmm(f(2, 2, 3), f(3, 3, 2))
torch.bmm(f(2, 2, 3), f(2, 2, 3))     | torch.bmm(f(2, 2, 3), i(2, 3, 2))     | torch.dot(f(2), f(3))
torch.dot(f(2, 2), f(2))              | torch.dot(f(2), i(2))                 | torch.mv(f(2, 3), f(2))
torch.mv(f(2), f(2))                  | torch.outer(f(2, 2), f(2))            | torch.addmm(f(5), f(2, 3), f(3, 4))
torch.addmm(f(4), f(2, 3), f(4, 4))   | torch.addmm(f(2), f(2), f(2))         | torch.addmm(i(4), f(2, 3), f(3, 4))
torch.addmv(f(3), f(2, 3), f(3))      | torch.addmv(f(2), f(2, 3), f(2))      | torch.addr(f(3, 3), f(2), f(3))
torch.addr(f(2, 3), f(2, 1), f(3))    | torch.baddbmm(f(3), f(2, 2, 3), f(2, 2, 3)) | torch.baddbmm(f(5), f(2, 2, 3), f(2, 3, 4))
torch.addbmm(f(3), f(2, 2, 3), f(2, 2, 3)) | torch.addbmm(f(9), f(2, 2, 3), f(2, 3, 2)) | F.linear(f(2, 3), f(4, 5))
F.linear(f(2, 3), f(4, 3), f(5))      | F.linear(f(2, 3), i(4, 3))            | F.bilinear(f(2, 3), f(2, 3), f(4, 3, 2))
torch.mm(f(2, 2), f(2, 2), out=f(2, 2).double()) | torch.addmm(f(2, 2), f(2, 2), f(2, 2), beta='x') | torch.vdot(f(2), f(3))
F.conv2d(f(1, 2, 4, 4), f(3, 3, 2, 2)) | F.conv2d(f(1, 2, 4, 4), f(3, 2, 5, 5)) | F.conv2d(f(1, 2, 4, 4), f(3, 2, 2, 2), f(4))
F.conv2d(f(1, 2, 4, 4), f(3, 2, 2, 2), stride=0) | F.conv2d(f(1, 2, 4, 4), f(3, 2, 2, 2), padding=-1)
F.conv2d(f(1, 2, 4, 4), f(3, 2, 2, 2), groups=2)
F.conv2d(f(1, 2, 4, 4), f(3, 2, 2, 2), dilation=0) | F.conv2d(f(2, 4), f(3, 2, 2, 2)) | F.conv2d(f(1, 2, 4, 4), h(3, 2, 2, 2))
F.conv1d(f(1, 2, 4, 4), f(3, 2, 2))   | F.conv1d(f(1, 2, 4), f(3, 1, 2))      | F.conv_transpose2d(f(1, 2, 4, 4), f(3, 2, 2, 2))
F.conv_transpose2d(f(1, 2, 4, 4), f(2, 3, 2, 2), output_padding=2) | F.conv2d(f(1, 2, 4, 4), f(3, 2, 2, 2), groups=0)
F.conv3d(f(1, 2, 4, 4), f(3, 2, 2, 2, 2))
F.max_pool2d(f(4, 4), 2)              | F.max_pool2d(f(1, 1, 2, 2), 3)        | F.max_pool2d(f(1, 1, 4, 4), 2, padding=2)
F.max_pool2d(f(1, 1, 4, 4), 0)        | F.max_pool2d(f(1, 1, 4, 4), 2, stride=0) | F.max_pool3d(f(1, 4, 4), 2)
F.avg_pool2d(f(4, 4), 2)              | F.avg_pool2d(f(1, 1, 2, 2), 3)        | F.avg_pool2d(f(1, 1, 4, 4), 2, padding=2)
F.avg_pool2d(i(1, 1, 4, 4), 2)        | F.avg_pool2d(f(1, 1, 4, 4), 2, divisor_override=0) | F.avg_pool3d(f(4, 4), 2)
F.adaptive_avg_pool2d(f(4, 4), 2)     | F.adaptive_avg_pool2d(f(1, 0, 4, 4), -1) | F.adaptive_max_pool2d(f(4, 4), 2)
F.adaptive_avg_pool1d(f(4), 2)        | F.adaptive_avg_pool3d(f(4, 4), 2)     | F.adaptive_max_pool2d(f(1, 2, 4, 4), (2, 2, 2))
F.interpolate(f(1, 1, 2), size=(2, 2)) | F.interpolate(f(1, 1, 2, 2), scale_factor=-1.0)
F.interpolate(f(1, 1, 2, 2), size=0, mode='bilinear')
F.interpolate(f(1, 1, 2, 2), size=2, mode='linear') | F.unfold(f(2, 2), 2)    | F.fold(f(1, 3, 4), (3, 3), 2)
F.unfold(f(1, 1, 2, 2), 3)            | F.fold(f(1, 4, 3), (3, 3), 2)         | F.unfold(f(1, 1, 4, 4), 2, stride=0)
"""
INDEXING = """
f(2)[f(2)]                            | f(2)[0, 0]                            | f(2, 3)[b(3, 2)]
f(2)[5]                               | f(2)[i(2), i(2)]                      | f(2, 3)[i(2), i(3)]
f(2)['x']                             | f(2)[b(3)]                            | f(2, 3)[..., 4]
f(2).index_select(1, i(1))            | f(2).index_select(0, f(1))            | f(2).index_select(0, i(1, 1))
f(2, 2).gather(0, i(2))               | f(2, 2).gather(0, f(2, 2))            | f(2, 2).gather(2, i(2, 2))
f(2, 2).gather(0, i(3, 3))            | f(2, 2).scatter(0, i(2, 2), i(2, 2))  | f(2, 2).scatter(0, f(2, 2), 1.0)
f(2, 2).scatter(0, i(2), f(2))        | f(2, 2).scatter(0, i(3, 3), f(2, 2))  | f(2, 2).scatter_add(0, i(2, 2), i(2, 2))
f(2, 2).scatter_add(2, i(2, 2), f(2, 2)) | f(2).scatter_reduce(0, i(2), f(2), 'x') | f(2).scatter_reduce(0, i(2), i(2), 'sum')
f(2).scatter(0, i(2), f(2), reduce='x') | f(2).index_add(0, i(1), f(2))       | f(2).index_add(0, f(1), f(1))
f(2).index_add(1, i(1), f(1))         | f(2).index_add(0, i(1), i(1))         | f(2, 3).index_add(0, i(1), f(1, 2))
f(2).index_copy(0, i(1), f(2))        | f(2).index_copy(0, i(1), i(1))        | f(2).index_copy(0, f(1), f(1))
f(2).index_fill_(0, f(1), 1)          | f(2).index_fill_(1, i(1), 1)          | f(2).index_fill_(0, i(1), f(2))
f(2).index_put_((f(2),), f(2))        | f(2).index_put_((i(2),), i(2))        | f(2).index_put_((i(2),), f(3))
f(2).index_put_((i(2), i(2)), f(2))   | f(2).index_reduce_(0, i(1), f(1), 'x') | f(2).index_reduce_(0, f(1), f(1), 'prod')
f(2).masked_select(f(2))              | f(2).masked_select(b(3))              | f(2).masked_scatter_(f(2), f(2))
f(2).masked_scatter_(b(2), i(2))      | f(2).masked_scatter(b(3), f(2))       | f(2).put_(f(1), f(1))
f(2).put_(i(1), f(2))                 | f(2).put_(i(1), i(1))                 | f(2).take(f(1))
f(0).take(i(1))                       | F.embedding(f(2), f(2, 2))            | F.embedding(i(2), f(2))
F.embedding(b(2), f(2, 2))            | F.one_hot(f(2))                       | F.one_hot(f(2), 3)
torch.take_along_dim(f(2, 2), f(2, 2), 0) | f(2, 2).take_along_dim(i(3, 3), 0) | torch.nonzero(f(2), as_tuple='x', out=f(2))
f(2)[0:1:0]                           | f(2, 3).diag_embed(0, 0, 0)           | f(2).repeat_interleave(f(2))
"""
MAKING = """
torch.empty(-1, device=D)             | torch.zeros(2, -3, device=D)          | torch.ones(2, dtype='x', device=D)
torch.full((2,), 'x', device=D)       | torch.full((-2,), 1, device=D)        | torch.arange(5, 0, device=D)
torch.arange(0, 5, 0, device=D)       | torch.arange(0, float('inf'), device=D) | torch.arange(0, float('nan'), device=D)
torch.linspace(0, 1, -1, device=D)    | torch.logspace(0, 1, -2, device=D)    | torch.eye(-1, device=D)
torch.eye(2, -2, device=D)            | torch.randperm(-1, device=D)          | torch.randint(5, 5, (2,), device=D)
torch.randint(0, 300, (2,), dtype=torch.uint8, device=D) | torch.rand(2, dtype=torch.int64, device=D)
torch.randn(2, dtype=torch.bool, device=D)
f(2).uniform_(1, 0)                   | i(2).uniform_()                       | f(2).normal_(0, -1)
i(2).normal_()                        | f(2).bernoulli_(2.0)                  | f(2).bernoulli_(-0.5)
f(2).exponential_(-1)                 | i(2).exponential_()                   | f(2).geometric_(0)
f(2).geometric_(1.5)                  | f(2).cauchy_(0, 0)                    | f(2).log_normal_(0, -1)
f(2).random_(3, 3)                    | f(2).random_(0)                       | torch.normal(f(2), -f(2))
torch.normal(f(2), f(3))              | torch.bernoulli(i(2))                 | torch.randperm(300, dtype=torch.uint8, device=D)
torch.cat([])                         | torch.cat([f(2, 3), f(2, 4)])         | torch.cat([f(2), f(2, 2)])
torch.cat([f(2), f(2)], 1)            | torch.stack([f(2), f(3)])             | torch.stack([])
torch.cat([f(2), f(2)], out=i(4))     | torch.hstack([f(2), f(2, 2)])         | torch.stack([f(2)], 3)
torch.tensor([1, 'x'], device=D)      | torch.tensor([[1], [2, 3]], device=D) | f(2).new_empty(-1)
torch.empty((2,), layout='x', device=D) | torch.empty_strided((2,), (-1,), device=D) | torch.empty_strided((2,), (1, 1), device=D)
f(2).resize_(-1)                      | f(2).resize_(2, memory_format=torch.channels_last) | f(2).set_(i(2))
"""
VIEWS = """
f(2, 3).view(4)                       | f(2, 3).t().view(6)                   | f(2, 3).reshape(4, -1)
f(2, 3).reshape(-1, -1)               | f(2, 3).view(-2, 3)                   | f(2, 3).expand(3, 3)
f(2, 3).expand(3)                     | f(2, 3).expand(-1, 2, 3)              | f(2, 3).permute(0, 0)
f(2, 3).permute(0)                    | f(2, 3).transpose(0, 2)               | f(2, 3).select(0, 2)
f(2, 3).select(2, 0)                  | f(2, 3).narrow(0, 1, 2)               | f(2, 3).narrow(0, -3, 1)
f(2, 3).narrow(0, 0, -1)              | f(2, 3).squeeze(2)                    | f(2, 3).unsqueeze(4)
f(2, 3).diagonal(0, 0, 0)             | f(2).diagonal()                       | f(2, 3).unfold(0, 3, 1)
f(2, 3).unfold(0, 1, 0)               | f(2, 3).unfold(2, 1, 1)               | f(2).as_strided((2,), (-1,))
f(2).as_strided((2, 2), (1,))         | f(2).as_strided((2,), (1,), -1)       | f(2).as_strided((3,), (1,), 5)
f(5).split([2, 2])                    | f(5).split(-1)                        | f(5).chunk(0)
f(5).split(2, 1)                      | f(2, 3).unflatten(1, (2, 2))          | f(2, 3).flatten(1, 0)
f(3).view(torch.float64)              | f(2).t().t().view(torch.complex64).view(torch.float64) | f(2, 3).movedim(0, 2)
f(2, 3, 4).t()                        | f(2, 3).unbind(3)                     | f(2, 3).tensor_split(0)
f(2, 3).swapaxes(0, 5)                | f(2).copy_(f(3))                      | f(2, 3).copy_(f(2))
f(2).repeat()                         | f(2, 2).repeat(2)                     | f(2).tile((-1,))
f(3).expand(2, 3).add_(1)             | f(3).expand(2, 3).copy_(f(2, 3))      | f(3).expand(2, 3).mul_(f(2, 3))
f(7)[:-1].copy_(S[1:])                | S[:-1].copy_(S[1:])                   | S[:-1].add_(S[1:])
torch.mul(S[1:], 2, out=S[:-1])       | torch.add(S, 1, out=S.view(3, 3).t())  | torch.where(S[1:] > 0, S[1:], S[1:], out=S[:-1])
torch.cat((S[:4], S[4:]), out=S)      | torch.gather(S, 0, i(9), out=S)       | torch.cumsum(S[1:], 0, out=S[:-1])
f(2).requires_grad_().add_(1)         | i(2).requires_grad_()                 | (f(3).requires_grad_() * 2).backward()
f(2).item()                           | bool(f(2))                            | float(f(2, 2))
len(torch.tensor(1.0, device=D))      | iter(torch.tensor(1.0, device=D))     | f(2).backward()
f(2).to('x')                          | f(2).type('x') | torch.as_tensor(f(2), dtype='x')
"""
TABLES = {"pointwise": POINTWISE, "functions": FUNCTIONS, "reductions": REDUCTIONS, "products": PRODUCTS, "indexing": INDEXING, "making": MAKING,
          "views": VIEWS}
CALLS = [pytest.param(call.strip(), id=f"{name}-{call.strip()}") for name, table in TABLES.items()
         for line in table.strip().splitlines() for call in line.split(" | ")]

# Where the CPU's words are about its own kernels or C++ types, the device has others; the exception's class is the same.
OTHER_WORDS = {
    "f(2).masked_fill_(f(2), 1)", "F.pad(f(1, 2), (-2, -1))", "torch.bmm(f(2, 2, 3), i(2, 3, 2))", "F.conv2d(f(1, 2, 4, 4), h(3, 2, 2, 2))",
    "torch.addbmm(f(3), f(2, 2, 3), f(2, 2, 3))", "F.max_pool3d(f(1, 4, 4), 2)", "F.embedding(b(2), f(2, 2))", "f(2).resize_(-1)",
    "f(2, 3).expand(3)", "f(2).masked_select(b(3))"}


def words(error):
    """The first line, without devices and without the name of the kernel that does not know a dtype."""
    text = str(error).split("\n")[0].replace("tiny:0", "cpu").replace("tiny", "cpu")
    return re.sub('^"[^"]*" not implemented', "not implemented", text)


def outcome(call, device):
    """The exception of a call, or None. What only the values show is raised when they are read."""
    def ones(dtype):
        return lambda *sizes: torch.ones(sizes, dtype=dtype, device=device)
    names = {"f": ones(torch.float32), "h": ones(torch.bfloat16), "i": ones(torch.int64), "b": ones(torch.bool), "S": ones(torch.float32)(9)}
    try:
        result = eval(call, {"torch": torch, "F": F, "D": device, **names})
        for t in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(t, torch.Tensor):
                t.cpu()
    except Exception as error:  # noqa: BLE001
        return error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
def test_raises_what_the_cpu_raises(call):
    want, got = outcome(call, "cpu"), outcome(call, "tiny")
    assert type(want) is type(got), f"cpu {want!r}, tiny {got!r}"
    if want is not None and call not in OTHER_WORDS:
        assert words(got) == words(want)


def test_most_calls_are_wrong():
    """The table holds what it says: nearly all of its calls fail on the CPU."""
    fail = [outcome(call.values[0], "cpu") is not None for call in CALLS]
    assert len(fail) >= 300 and sum(fail) >= 0.9 * len(fail)
