"""Makes "tiny" known to torch: name, module, methods, patches, hooks. Opens no device."""
import atexit
import os
import sys

import torch

from torch_tiny import _C

_done = False


def register():
    global _done
    if _done:
        return
    _done = True
    torch.utils.rename_privateuse1_backend("tiny")
    from torch_tiny import module, patches

    torch._register_device_module("tiny", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True)
    patches.apply()
    _C.set_library_folders([os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep])
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_after_optimizer_step)
    atexit.register(_tell_of_fallbacks)


def _after_optimizer_step(optimizer, args, kwargs):
    """A training step ends here: what is pending is submitted, so that forward, backward and update are scheduled together."""
    _C.flush("step")


def _tell_of_fallbacks():
    """One line at exit, for people: what was slow without saying so."""
    counts = _C.fallback_counts()
    if not counts or _C.fallback_policy() or not sys.stderr.isatty():
        return
    names = sorted(counts, key=counts.get, reverse=True)
    some = ", ".join(f"{name} {counts[name]}x" for name in names[:5]) + (", ..." if len(names) > 5 else "")
    print(f"torch_tiny: operators that ran on the CPU: {some}. TINY_FALLBACK=warn says where, TINY_FALLBACK=allow silences this.",
          file=sys.stderr)
