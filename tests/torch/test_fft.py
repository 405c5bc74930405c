"""torch.fft, torch.stft, torch.istft and windows on the device, against the CPU; none of it may run there."""
import pytest
import torch

D = "tiny"
NORMS = ["backward", "ortho", "forward"]


pytestmark = pytest.mark.usefixtures("no_fallback")


def noise(*shape, dtype=torch.complex64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def check(f, x):
    want = f(x)
    got = f(x.to(D))
    assert got.device.type == D and got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got.cpu(), want)


# ---- sizes: one pass, several, great primes (a matrix, a convolution), local memory exceeded
SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 22, 31, 36, 61, 67, 97, 128, 134, 251, 360, 400, 625, 1024, 1201, 4099, 5005, 8192]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_sizes_of_complex_transforms(dtype):
    for n in SIZES:
        x = noise(2, n, dtype=dtype, seed=n)
        check(lambda t: torch.fft.fft(t, norm="ortho"), x)
        check(torch.fft.ifft, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sizes_of_real_transforms(dtype):
    for n in SIZES:
        x = noise(2, n, dtype=dtype, seed=n)
        check(lambda t: torch.fft.rfft(t, norm="ortho"), x)
        check(torch.fft.ihfft, x)
        check(lambda t: torch.fft.fft(t, norm="ortho"), x)
        half = torch.fft.rfft(x, norm="ortho")
        check(lambda t: torch.fft.irfft(t, n, norm="ortho"), half)
        check(lambda t: torch.fft.hfft(t, n, norm="ortho"), half)


def test_parts_that_do_not_matter():
    """The imaginary parts of the constant and of the highest frequency of an even size are those of no real signal."""
    for n in (1, 2, 5, 8, 64, 67, 134, 1202):
        x = noise(3, n // 2 + 1, seed=n)
        check(lambda t: torch.fft.irfft(t, n, norm="ortho"), x)


@pytest.mark.parametrize("norm", NORMS)
def test_norms(norm):
    x, real = noise(3, 5, 12), noise(3, 5, 12, dtype=torch.float64)
    for f in (torch.fft.fft, torch.fft.ifft, torch.fft.fft2, torch.fft.ifft2, torch.fft.fftn, torch.fft.ifftn, torch.fft.irfft, torch.fft.hfft,
              torch.fft.irfft2, torch.fft.irfftn, torch.fft.hfft2, torch.fft.hfftn):
        check(lambda t: f(t, norm=norm), x)
    for f in (torch.fft.rfft, torch.fft.ihfft, torch.fft.rfft2, torch.fft.rfftn, torch.fft.ihfft2, torch.fft.ihfftn, torch.fft.fftn):
        check(lambda t: f(t, norm=norm), real)


@pytest.mark.parametrize("dims", [(0,), (1,), (-1,), (0, 1), (2, 0), (1, 3), (0, 1, 2), (3, 1, 0, 2)])
def test_dimensions(dims):
    x, real = noise(6, 8, 3, 10), noise(6, 8, 3, 10, dtype=torch.float32)
    check(lambda t: torch.fft.fftn(t, dim=dims), x)
    check(lambda t: torch.fft.ifftn(t, dim=dims), x.transpose(0, 3))
    check(lambda t: torch.fft.rfftn(t, dim=dims), real)
    check(lambda t: torch.fft.rfftn(t, dim=dims), real.transpose(1, 3)[::2])
    check(lambda t: torch.fft.irfftn(t, dim=dims), x)
    check(lambda t: torch.fft.irfftn(t, dim=dims, s=[7] * len(dims)), x)


def test_padding_and_cutting():
    x = noise(4, 30)
    for n in (1, 16, 29, 45, 64):
        check(lambda t: torch.fft.fft(t, n), x)
        check(lambda t: torch.fft.ifft(t, n, dim=0), x)
        check(lambda t: torch.fft.rfft(t, n), x.real)
        check(lambda t: torch.fft.irfft(t, n), x)
    check(lambda t: torch.fft.fft2(t, s=(7, 9)), x)


def test_views_conjugates_and_shifts():
    x = noise(8, 12)
    check(lambda t: torch.fft.fft(t.conj()), x)
    check(lambda t: torch.fft.fft(t.t()), x)
    check(lambda t: torch.fft.fft(t[::2, 1::3]), x)
    check(lambda t: torch.fft.fft(t.imag), x)
    check(lambda t: torch.fft.fft(-t.conj().imag), x)
    check(lambda t: torch.fft.ifft(torch.fft.fft(t) * torch.fft.fft(t.flip(1))), x)
    check(lambda t: torch.fft.fftshift(torch.fft.fft2(t)), x)
    check(lambda t: torch.fft.fft(t[:, :1].expand(8, 12)), x)
    for n in (7, 8):
        check(lambda t: torch.fft.fftfreq(n, d=0.5, device=t.device), x)
        check(lambda t: torch.fft.rfftfreq(n, device=t.device), x)


def test_nothing_to_transform():
    check(lambda t: torch._fft_c2c(t, [], 0, True), noise(3, 4))
    for f in (torch.fft.fft, torch.fft.rfft, torch.fft.irfft):
        t = f(torch.zeros(3, 0, 8, dtype=torch.complex64 if f is torch.fft.irfft else torch.float32, device=D))
        assert t.shape == (3, 0, {torch.fft.fft: 8, torch.fft.rfft: 5, torch.fft.irfft: 14}[f])
    check(torch.fft.fft, torch.arange(6))


def test_out():
    x, real = noise(4, 10), noise(4, 10, dtype=torch.float32)
    for f, a in ((torch.fft.fft, x), (torch.fft.rfft, real), (torch.fft.irfft, x), (torch.fft.ifft2, x), (torch.fft.hfft, x), (torch.fft.ihfft, real)):
        want = f(a)
        out = torch.empty(want.shape, dtype=want.dtype, device=D)
        assert f(a.to(D), out=out) is out
        torch.testing.assert_close(out.cpu(), want)
        wide = torch.zeros(*want.shape, 2, dtype=want.dtype, device=D)
        f(a.to(D), out=wide[..., 1])
        torch.testing.assert_close(wide.cpu()[..., 1], want)
        assert not wide[..., 0].cpu().any()


def same_words(f, x):
    for t in (x, x.to(D)):
        with pytest.raises(RuntimeError) as e:
            f(t)
        yield str(e.value).replace("tiny", "cpu").replace("'cpu:0'", "'cpu'")


@pytest.mark.parametrize("f", [
    lambda t: torch.fft.fft(t, n=0), lambda t: torch.fft.fft(t.half()), lambda t: torch.fft.rfft(t.to(torch.complex64)),
    lambda t: torch.fft.fftn(t, dim=(0, 0)), lambda t: torch.fft.fft2(t, s=(1, 2, 3)), lambda t: torch.fft.irfft(t, n=-3),
])
def test_words_of_errors(f):
    a, b = same_words(f, torch.randn(4, 6))
    assert a == b


def gradients(f, x, second):
    out = []
    for t in (x, x.to(D)):
        t = t.clone().requires_grad_()
        y = f(t)
        weight = torch.linspace(0.5, 1.5, y.numel(), dtype=torch.float64).reshape(y.shape).to(y.device, y.real.dtype)
        loss = (torch.view_as_real(y.resolve_conj()).square().sum(-1) * weight if y.is_complex() else y.square() * weight).sum()
        g, = torch.autograd.grad(loss, t, create_graph=second)
        if second:
            g, = torch.autograd.grad((torch.view_as_real(g.resolve_conj()) if g.is_complex() else g).pow(3).sum(), t)
        out.append(g.cpu())
    torch.testing.assert_close(out[1], out[0])


@pytest.mark.parametrize("second", [False, True])
def test_gradients(second):
    x, real = noise(3, 10, dtype=torch.complex128), noise(3, 10, dtype=torch.float64)
    for f in (torch.fft.fft, torch.fft.ifft2, torch.fft.irfft, torch.fft.hfft, lambda t: torch.fft.irfft(t, 7), lambda t: torch.fft.fft(t, 17)):
        gradients(f, x, second)
    for f in (torch.fft.rfft, torch.fft.rfft2, torch.fft.ihfft, torch.fft.fft, lambda t: torch.fft.rfft(t, 9)):
        gradients(f, real, second)


# ---- signals
@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("onesided", [True, False])
def test_stft_and_back(real, onesided):
    if not real and onesided:
        pytest.skip("complex signals have no half spectrum")
    x = noise(2, 1000, dtype=torch.float64 if real else torch.complex128)
    for n, hop, length in ((64, 16, 64), (100, 25, 80), (37, 9, 30)):
        window = torch.hann_window(length, dtype=torch.float64)
        results = []
        for t in (x, x.to(D)):
            s = torch.stft(t, n, hop, length, window.to(t.device), onesided=onesided, return_complex=True, normalized=n == 64)
            back = torch.istft(s, n, hop, length, window.to(t.device), onesided=onesided, length=900, normalized=n == 64,
                               return_complex=not real)
            results.append((s.cpu(), back.cpu()))
        torch.testing.assert_close(results[1], results[0])
        torch.testing.assert_close(results[1][1], x[:, :900])


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(name):
    f = getattr(torch, f"{name}_window")
    for n in (0, 1, 2, 9, 400):
        for periodic in (True, False):
            check(lambda t: f(n, periodic, device=t.device), torch.empty(0))
            check(lambda t: f(n, periodic, device=t.device, dtype=torch.float64), torch.empty(0))


def test_signal_windows():
    w = torch.signal.windows
    for f in (w.bartlett, w.blackman, w.cosine, w.exponential, w.gaussian, w.hamming, w.hann, w.kaiser, w.nuttall):
        for n in (1, 2, 51):
            check(lambda t: f(n, device=t.device, dtype=torch.float64), torch.empty(0))
            check(lambda t: f(n, sym=False, device=t.device), torch.empty(0))


def test_convolution_by_spectra():
    a, b = noise(500, dtype=torch.float32), noise(80, seed=1, dtype=torch.float32)
    product = torch.fft.irfft(torch.fft.rfft(a.to(D), 600) * torch.fft.rfft(b.to(D), 600), 600)[:579].cpu()
    direct = torch.nn.functional.conv1d(a.double()[None, None], b.double().flip(0)[None, None], padding=79)[0, 0]
    torch.testing.assert_close(product.double(), direct, rtol=1e-4, atol=1e-4)


def test_few_kernels_and_no_recompilation():
    x = noise(64, 1024).to(D)
    torch.fft.fft(x).cpu()
    before = torch.tiny.stats()
    for _ in range(3):
        torch.fft.fft(x).cpu()
    after = torch.tiny.stats()
    assert after["kernels_run"] - before["kernels_run"] == 3 and after["misses"] == before["misses"]
