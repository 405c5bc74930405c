"""Every view operator of PyTorch: the result shares the storage, writes go through in both directions, versions count as on CPU."""
import pytest
import torch

D = "tiny"


def real():
    return torch.arange(24.0).reshape(4, 6)


def cube():
    return torch.arange(24.0).reshape(2, 3, 4)


def number():
    return torch.complex(torch.arange(12.0).reshape(3, 4), -torch.arange(12.0).reshape(3, 4))


def single():
    return torch.arange(12.0).reshape(1, 3, 1, 4)


VIEWS = {
    "__getitem__": (real, lambda x: x[1:, ::2]),
    "_conj": (number, lambda x: x.conj()),
    "_neg_view": (real, torch._neg_view),
    "_reshape_alias": (real, lambda x: torch.ops.aten._reshape_alias(x, [6, 4], [4, 1])),
    "adjoint": (number, lambda x: x.adjoint()),
    "alias": (real, torch.ops.aten.alias),
    "as_strided": (real, lambda x: x.as_strided((3, 2), (2, 5), 1)),
    "broadcast_to": (real, lambda x: x.broadcast_to(4, 6)),
    "chunk": (real, lambda x: x.chunk(2, 1)[1]),
    "conj": (number, lambda x: torch.conj(x)),
    "contiguous": (real, lambda x: x.contiguous()),
    "detach": (real, lambda x: x.detach()),
    "diagonal": (real, lambda x: x.diagonal(1)),
    "dsplit": (cube, lambda x: x.dsplit(2)[1]),
    "expand": (single, lambda x: x.expand(1, 3, 1, 4)),
    "expand_as": (real, lambda x: x.expand_as(x)),
    "flatten": (cube, lambda x: x.flatten(1)),
    "hsplit": (real, lambda x: x.hsplit([2])[1]),
    "imag": (number, lambda x: x.imag),
    "lift_fresh": (real, torch.ops.aten.lift_fresh),
    "linalg_diagonal": (cube, lambda x: torch.linalg.diagonal(x, offset=-1)),
    "mH": (number, lambda x: x.mH),
    "mT": (cube, lambda x: x.mT),
    "matrix_H": (number, lambda x: x.H),
    "moveaxis": (cube, lambda x: x.moveaxis(0, 2)),
    "movedim": (cube, lambda x: x.movedim((0, 1), (1, 2))),
    "narrow": (real, lambda x: x.narrow(0, 1, 2)),
    "numpy_T": (real, lambda x: x.T),
    "permute": (cube, lambda x: x.permute(2, 0, 1)),
    "positive": (real, lambda x: x.positive()),
    "ravel": (real, lambda x: x.ravel()),
    "real": (number, lambda x: x.real),
    "reshape": (real, lambda x: x.reshape(6, 4)),
    "reshape_as": (real, lambda x: x.reshape_as(x.view(3, 8))),
    "resolve_conj": (real, lambda x: x.resolve_conj()),
    "resolve_neg": (real, lambda x: x.resolve_neg()),
    "select": (real, lambda x: x.select(0, 3)),
    "slice": (real, lambda x: x[1:3]),
    "split": (real, lambda x: x.split(4, 1)[1]),
    "split_with_sizes": (real, lambda x: x.split_with_sizes([1, 5], 1)[1]),
    "squeeze": (single, lambda x: x.squeeze()),
    "swapaxes": (cube, lambda x: x.swapaxes(0, 1)),
    "swapdims": (cube, lambda x: x.swapdims(1, 2)),
    "t": (real, lambda x: x.t()),
    "tensor_split": (real, lambda x: x.tensor_split(5, 1)[2]),
    "to": (real, lambda x: x.to(torch.float32)),
    "transpose": (cube, lambda x: x.transpose(0, 2)),
    "unbind": (real, lambda x: x.unbind(1)[2]),
    "unflatten": (real, lambda x: x.unflatten(1, (2, 3))),
    "unfold": (real, lambda x: x.unfold(1, 2, 2)),
    "unsqueeze": (real, lambda x: x.unsqueeze(1)),
    "view": (real, lambda x: x.view(2, 12)),
    "view_as": (real, lambda x: x.view_as(torch.empty(8, 3))),
    "view_as_complex": (lambda: torch.arange(24.0).reshape(3, 4, 2), torch.view_as_complex),
    "view_as_real": (number, torch.view_as_real),
    "vsplit": (real, lambda x: x.vsplit(2)[1]),
}
OTHERS = {
    "of sparse or nested tensors": {"_indices", "_values", "_nested_get_values", "_nested_view_from_buffer", "_nested_view_from_jagged", "_sparse_broadcast_to",
                                    "ccol_indices", "col_indices", "coalesce", "crow_indices", "indices", "row_indices", "values"},
    "of autograd and TorchScript, not called by programs": {
        "_autocast_to_full_precision", "_autocast_to_reduced_precision", "_fw_primal", "_grad_sum_to_size", "_make_dual", "_ncf_unsqueeze", "_ncf_view",
        "_test_autograd_multiple_dispatch_view", "_unpack_dual", "_unwrap_optional", "as_tensor", "get", "keys", "local_value", "pop", "setdefault", "slice_inverse",
        "to_here"},
    "to other memory": {"cpu", "cuda", "pin_memory"},
}


def test_the_table_is_complete():
    aliasing = {s.name.removeprefix("aten::") for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")
                and any(r.alias_info and not r.alias_info.is_write for r in s.returns)}
    assert aliasing - set().union(*OTHERS.values()) == set(VIEWS)


@pytest.mark.parametrize("name", VIEWS)
def test_view(name):
    make, view = VIEWS[name]

    def program(device):
        base = make().to(device).clone()
        start = base._version
        v = view(base)
        assert v.untyped_storage()._cdata == base.untyped_storage()._cdata
        seen = [v.clone(), base.clone()]
        base.mul_(2)
        seen += [v.clone()]
        v.add_(1)
        seen += [v.clone(), base.clone()]
        v[..., :1] = 5
        seen += [base.clone()]
        facts = (v.shape, v.stride(), v.storage_offset(), v.dtype, v.is_conj(), v.is_neg(), v._is_view(), v._base is base, base._version - start,
                 v._version - start)
        return seen, facts

    (want, facts), (got, device_facts) = program("cpu"), program(D)
    assert device_facts == facts
    for a, b in zip(want, got, strict=True):
        assert b.device.type == D
        torch.testing.assert_close(b.cpu(), a, rtol=0, atol=0)


def test_views_of_another_dtype():
    for dtype in (torch.int32, torch.bfloat16, torch.uint8, torch.float64):
        def program(device, dtype=dtype):
            base = real().to(device)
            v = base.view(dtype)
            assert v.untyped_storage()._cdata == base.untyped_storage()._cdata
            v[1:].zero_()
            return [v, base]

        for a, b in zip(program("cpu"), program(D), strict=True):
            assert a.shape == b.shape and a.stride() == b.stride()
            assert torch.equal(b.cpu().view(torch.uint8), a.view(torch.uint8))
