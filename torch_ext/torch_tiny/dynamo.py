"""torch.compile(backend="tiny"): a compiled function's graph is recorded once; a call then puts it into the lazy graph as a whole, without
dispatching its operators. Forward and backward each are one such graph. They fuse with what comes before and after, as operators do.
"""
import warnings

import torch
from functorch.compile import default_partition
from torch._dynamo.backends.common import aot_autograd

from torch_tiny import _C

MAX_GRAPHS = 8  # recordings of one function, for different sizes; beyond that its operators are called one by one


class _Function:
    """One graph of aten operators (an fx.GraphModule), with its recordings."""

    def __init__(self, module):
        self.module = module
        self.graphs = {}     # by the arguments that are no tensors
        self.recorded = 0
        self.plain = False   # it needs values while it runs, or there are too many recordings

    def __call__(self, arguments):
        if self.plain:
            return self.module(*arguments)
        tensors = [x for x in arguments if isinstance(x, torch.Tensor)]
        others = tuple(x for x in arguments if not isinstance(x, torch.Tensor))
        graphs = self.graphs.setdefault(others, [])
        for graph in graphs:
            results = graph.run(tensors)
            if results is not None:
                return self.rebuilt(results)
        graph = self.record(arguments, tensors)
        if graph is None:
            return self.module(*arguments)
        graphs.append(graph)
        return self.rebuilt(graph.run(tensors))

    def record(self, arguments, tensors):
        """The function's graph for such arguments; None if there is none."""
        if self.recorded == MAX_GRAPHS:
            self.plain = True
            warnings.warn(f"torch.compile(backend='tiny'): more than {MAX_GRAPHS} kinds of inputs of one function; from now on its "
                          "operators are called one by one")
            return None
        try:
            capture = _C.Capture(tensors)
            stand_ins = iter(capture.stand_ins())
            results = self.module(*(next(stand_ins) if isinstance(x, torch.Tensor) else x for x in arguments))
            self.is_tuple = isinstance(results, (tuple, list))
            results = list(results) if self.is_tuple else [results]
            if not all(x is None or isinstance(x, torch.Tensor) for x in results):
                raise NotImplementedError("a result that is no tensor")
            graph = capture.finish(results)
        except NotImplementedError:
            graph = None
        self.plain = graph is None
        self.recorded += 1
        return graph

    def rebuilt(self, results):
        return tuple(results) if self.is_tuple else results[0]


def _compile(module, example_inputs):
    function = _Function(module)

    def call(arguments):
        given = list(arguments)
        arguments.clear()  # they need not outlive the call
        return function(given)

    call._boxed_call = True
    return call


# What backward needs is kept by name, not by memory: what nobody reads later is never stored. So nothing is gained by computing it again.
backend = aot_autograd(fw_compiler=_compile, bw_compiler=_compile, partition_fn=default_partition)
