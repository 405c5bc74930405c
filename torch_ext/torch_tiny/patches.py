"""Places where torch lists devices by name and leaves renamed ones out. One function a patch, applied in the order of PATCHES."""
import threading
import warnings

import torch

from torch_tiny import _C

VERSION = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
_saving = threading.local()


def _is_tiny(x):
    return x.device.type == "tiny"


def repr_copies_once():
    """Printing works on a CPU copy: one flush, no kernel for each statistic of the printer."""
    module = torch._tensor_str
    original = module._tensor_str

    def _tensor_str(self, indent):
        if isinstance(self, torch.Tensor) and self.device.type == "tiny":
            self = self.detach().cpu()
        return original(self, indent)

    module._tensor_str = _tensor_str


def dlpack_names_the_device():
    """Devices in host memory export as CPU memory, which every consumer can read; others as an extension device."""
    from torch.utils import dlpack

    device_of, export = torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__
    kinds = dlpack.DLDeviceType

    def __dlpack_device__(self):
        if not _is_tiny(self):
            return device_of(self)
        return (kinds.kDLCPU, 0) if _C.host_visible(self.device.index) else (kinds.kDLExtDev, self.device.index)

    def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
        arguments = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        if not _is_tiny(self):
            return export(self, stream=stream, **arguments)
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.is_conj():
            raise BufferError("Can't export tensors with the conjugate bit set")
        if not _C.host_visible(self.device.index):
            self.data_ptr()  # real memory before the capsule is made
            return export(self, stream=None, **arguments)
        return export(_C.host_alias(self), stream=None, **arguments)

    torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__ = __dlpack_device__, __dlpack__
    original = dlpack.from_dlpack

    def from_dlpack(ext_tensor, *args, **kwargs):
        if isinstance(ext_tensor, torch.Tensor) and _is_tiny(ext_tensor) and not args and not kwargs:
            return ext_tensor.detach().view_as(ext_tensor)  # stays where it is
        return original(ext_tensor, *args, **kwargs)

    dlpack.from_dlpack = torch.from_dlpack = from_dlpack


def saving_does_not_pin():
    """torch.save asks storages for their address only to tell them apart; an address would pin their memory for good."""
    storage = torch.UntypedStorage
    address, save = storage.data_ptr, torch.serialization._save

    def data_ptr(self):
        if getattr(_saving, "depth", 0) and _is_tiny(self):
            return self._cdata if self.nbytes() else 0
        return address(self)

    def _save(*args, **kwargs):
        _saving.depth = getattr(_saving, "depth", 0) + 1
        try:
            return save(*args, **kwargs)
        finally:
            _saving.depth -= 1

    storage.data_ptr, torch.serialization._save = data_ptr, _save


def _storage_on(device, host):
    return torch.empty(0, dtype=torch.uint8).set_(host).to(device).untyped_storage()


def _rebuild(cls, storage, dtype, offset, size, stride, requires_grad):
    t = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)
    return torch.nn.Parameter(t, requires_grad) if cls is torch.nn.Parameter else t.requires_grad_(requires_grad)


def tensors_travel_between_processes():
    """What is sent to another process arrives as a copy on the device of the same index there. Views of one storage in one message stay
    views of one storage: pickle sends each storage object once. Nothing is shared between the processes, which is said."""
    from multiprocessing.reduction import ForkingPickler

    from torch.multiprocessing import reductions

    tensor_parts, storage_parts, share = reductions.reduce_tensor, reductions.reduce_storage, torch.UntypedStorage.share_memory_
    shared = torch.UntypedStorage.is_shared
    told = []

    def reduce_storage(storage):
        if not _is_tiny(storage):
            return storage_parts(storage)
        if not told:
            told.append(True)
            warnings.warn("A tensor on the tiny device is sent to another process as a copy: unlike with CPU and CUDA tensors, what one "
                          "process writes to it later is not seen by the other", stacklevel=2)
        return _storage_on, (storage.device, storage.cpu())

    def reduce_tensor(tensor):
        if not _is_tiny(tensor) or tensor.layout is not torch.strided or (tensor.requires_grad and not tensor.is_leaf):
            return tensor_parts(tensor)  # raises for what cannot be sent
        t = tensor.detach().resolve_conj().resolve_neg()
        return _rebuild, (type(tensor), t.untyped_storage(), t.dtype, t.storage_offset(), t.size(), t.stride(), tensor.requires_grad)

    def share_memory_(self, *args, **kwargs):
        if _is_tiny(self):
            raise RuntimeError("Memory of the tiny device cannot be shared between processes: share CPU tensors, and move them to the "
                               "device in each process")
        return share(self, *args, **kwargs)

    def is_shared(self):
        return not _is_tiny(self) and shared(self)

    torch.UntypedStorage.share_memory_, torch.UntypedStorage.is_shared = share_memory_, is_shared
    reductions.reduce_tensor, reductions.reduce_storage = reduce_tensor, reduce_storage
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, reduce_tensor)
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)


def lazy_modules_move():
    """Uninitialised parameters may be moved with .tiny()."""
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(torch.Tensor.tiny)


def names_of_older_torch():
    """torch 2.13 gives the renamed device its names in enumerations; older ones do not."""
    if VERSION >= (2, 13):
        return
    from torch._C._autograd import DeviceType
    from torch._C._profiler import ProfilerActivity

    ProfilerActivity.TINY, DeviceType.TINY = ProfilerActivity.PrivateUse1, DeviceType.PrivateUse1
    checkpoint = torch.utils.checkpoint if hasattr(torch.utils, "checkpoint") else None
    if checkpoint is not None:
        checkpoint.DefaultDeviceType.set_device_type("tiny")


def addresses_of_older_torch():
    """torch 2.13 tells us when an address is asked for; older ones do not."""
    if VERSION >= (2, 13):
        return
    tensor_address, storage_address = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr

    def tensor_data_ptr(self):
        return _C.pin(self) if _is_tiny(self) else tensor_address(self)

    def storage_data_ptr(self):
        if _is_tiny(self) and self.nbytes():
            return _C.pin(torch.empty(0, dtype=torch.uint8, device=self.device).set_(self))
        return storage_address(self)

    torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr = tensor_data_ptr, storage_data_ptr

    def with_memory(method):
        def call(self, *args, **kwargs):
            storage_data_ptr(self)
            return method(self, *args, **kwargs)
        return call

    for name in ("_set_from_file", "_write_file", "__setitem__", "__getitem__", "fill_"):  # these use the memory from C++
        setattr(torch.UntypedStorage, name, with_memory(getattr(torch.UntypedStorage, name)))


PATCHES = (names_of_older_torch, addresses_of_older_torch, repr_copies_once, dlpack_names_the_device, saving_does_not_pin,
           tensors_travel_between_processes, lazy_modules_move)


def apply():
    for patch in PATCHES:
        patch()
