"""Families of models: the same values on the device as on the CPU, in inference and through three steps of training, nothing on the CPU,
and no new program in later steps. Where Hugging Face's transformers are installed, four of theirs too."""
import copy
import importlib.util

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import probe
from families import FAMILIES, Decoder, words
from nn_compare import check, tensors, to

pytestmark = pytest.mark.usefixtures("no_fallback")
STEPS = 3
TRANSFORMERS = importlib.util.find_spec("transformers") is not None


def lively(model):
    """Biases and scales that say something: a wrong one must show."""
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
    return model


def train(model, step):
    """The losses of some steps, and what the parameters and buffers are then."""
    losses = [step(model).item() for _ in range(STEPS)]
    return losses, {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}


def same_training(model, step_of):
    """step_of(model on a device, device) -> one step's function. Compares every number with how far it moved on the CPU."""
    start, twin = copy.deepcopy(model.state_dict()), copy.deepcopy(model).to("tiny")
    step = step_of(twin, "tiny")
    (want, expected), (got, state) = train(model, step_of(model, "cpu")), train(twin, step)
    assert got == pytest.approx(want, rel=2e-4, abs=1e-5)
    for name, e in expected.items():
        if not e.is_floating_point():
            assert torch.equal(state[name], e), name
            continue
        moved = (e - start[name]).abs().max().item()
        assert (state[name] - e).abs().max().item() <= 0.03 * moved + 3e-6, name
    assert any(not torch.equal(e, start[name]) for name, e in expected.items())
    return twin, step


def no_new_program(model, step):
    step(model).item()  # the read of the state has run what would have been pending here
    mark = probe.flush_count()
    for _ in range(2):
        step(model).item()
    assert [f.miss_reason for f in probe.flushes_since(mark) if not f.hit] == []


def adam(parameters):
    return torch.optim.AdamW(parameters, 2e-3, eps=1e-3)  # a gradient that is nothing but rounding must not become a whole step


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name):
    torch.manual_seed(1)
    model, inputs, loss = FAMILIES[name].make()
    lively(model)
    with torch.no_grad():
        want, got = model.eval()(*inputs), copy.deepcopy(model).to("tiny")(*to(inputs, "tiny"))
    for w, g in zip(tensors(want), tensors(got), strict=True):
        check(g, w)

    def step_of(model, device):
        here, optimizer = to(inputs, device), (FAMILIES[name].optimizer or adam)(model.parameters())

        def step(model):
            optimizer.zero_grad()
            value = loss(model(*here), here)
            value.backward()
            optimizer.step()
            return value.detach()
        return step
    twin, step = same_training(model.train(), step_of)
    if not FAMILIES[name].sizes_vary:
        no_new_program(twin, step)


def test_generation_with_a_cache():
    torch.manual_seed(2)
    model, prompt = lively(Decoder()).eval(), words(2, 6)
    nothing = [(torch.zeros(2, 2, 0, 8),) * 2] * 2

    @torch.no_grad()
    def generate(device):
        m, caches, tokens = copy.deepcopy(model).to(device), to(nothing, device), prompt.to(device)
        out = [tokens]
        for _ in range(8):
            logits, caches = m(tokens, caches)
            tokens = logits[:, -1:].argmax(-1)
            out.append(tokens)
        return torch.cat(out, 1).cpu()
    assert torch.equal(generate("tiny"), generate("cpu"))


def test_adversaries():
    """Two optimizers, spectral norms, and a gradient of a gradient."""
    torch.manual_seed(3)
    norm = nn.utils.parametrizations.spectral_norm
    maker = nn.Sequential(nn.ConvTranspose2d(4, 8, 4), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Tanh())
    judge = nn.Sequential(norm(nn.Conv2d(1, 6, 4, 2, 1)), nn.LeakyReLU(0.2), nn.Flatten(), norm(nn.Linear(96, 1)))
    real, noise, mix = torch.randn(3, 1, 8, 8), torch.randn(3, 4, 1, 1), torch.rand(3, 1, 1, 1)

    def step_of(model, device):
        x, z, a = to((real, noise, mix), device)
        optimizers = [torch.optim.Adam(m.parameters(), 1e-3, (0.5, 0.99), eps=1e-3) for m in model]

        def step(model):
            maker, judge = model
            fake = maker(z)
            between = (a * x + (1 - a) * fake.detach()).requires_grad_()
            slope, = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
            apart = judge(fake.detach()).mean() - judge(x).mean() + (slope.flatten(1).norm(dim=1) - 1).square().mean()
            optimizers[1].zero_grad()
            apart.backward()
            optimizers[1].step()
            optimizers[0].zero_grad()
            fooled = F.softplus(-judge(fake)).mean()
            fooled.backward()
            optimizers[0].step()
            return (apart + fooled).detach()
        return step
    no_new_program(*same_training(lively(nn.ModuleList((maker, judge))), step_of))


def test_actor_and_critic():
    """Clipped ratios of probabilities, clipped gradients."""
    torch.manual_seed(4)
    nets = nn.ModuleList(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, n)) for n in (4, 1))
    given = torch.randn(20, 6), torch.randint(4, (20,)), torch.randn(20) * 0.1 - 1.4, torch.randn(20), torch.randn(20)

    def step_of(model, device):
        seen, action, before, gain, value = to(given, device)
        optimizer = adam(model.parameters())

        def step(model):
            better = (gain - gain.mean()) / (gain.std() + 1e-8)
            choice = torch.distributions.Categorical(logits=model[0](seen))
            ratio = (choice.log_prob(action) - before).exp()
            loss = -torch.min(ratio * better, ratio.clamp(0.8, 1.2) * better).mean() - 0.01 * choice.entropy().mean()
            loss = loss + F.huber_loss(model[1](seen).squeeze(-1), value)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return loss.detach()
        return step
    no_new_program(*same_training(lively(nets), step_of))


def test_denoiser_with_averaged_weights():
    torch.manual_seed(5)
    net = nn.Sequential(nn.Conv2d(5, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 1, 3, padding=2, dilation=2))
    given = torch.randn(3, 1, 8, 8), torch.randn(3, 1, 8, 8), torch.randint(50, (3,))

    def step_of(model, device):
        x, noise, t = to(given, device)
        optimizer = adam(model[0].parameters())

        def step(model):
            kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50, device=x.device), 0)[t].view(-1, 1, 1, 1)
            angle = t[:, None] * torch.exp(-1.5 * torch.arange(2, device=x.device))
            when = torch.cat((angle.sin(), angle.cos()), -1)[..., None, None].expand(-1, -1, 8, 8)
            loss = F.l1_loss(model[0](torch.cat((kept.sqrt() * x + (1 - kept).sqrt() * noise, when), 1)), noise)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for mean, now in zip(model[1].parameters(), model[0].parameters()):
                    mean.lerp_(now, 0.1)
            return loss.detach()
        return step
    no_new_program(*same_training(nn.ModuleList((lively(net), copy.deepcopy(net))), step_of))


# ---- Hugging Face's
TEXT = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=40,
            pad_token_id=0, bos_token_id=1, eos_token_id=None)
KINDS = {
    "BertForMaskedLM": ("BertConfig", dict(TEXT, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)),
    "LlamaForCausalLM": ("LlamaConfig", dict(TEXT, num_key_value_heads=2)),
    "MixtralForCausalLM": ("MixtralConfig", dict(TEXT, num_key_value_heads=2, num_local_experts=4)),
    "T5ForConditionalGeneration": ("T5Config", dict(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0,
                                                    decoder_start_token_id=0, pad_token_id=0, eos_token_id=None)),
}


@pytest.mark.skipif(not TRANSFORMERS, reason="transformers are not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_of_transformers(kind):
    import transformers
    config, options = KINDS[kind]
    torch.manual_seed(6)
    model = lively(getattr(transformers, kind)(getattr(transformers, config)(**options))).eval()
    tokens, padding = torch.randint(3, 60, (2, 10)), torch.ones(2, 10, dtype=torch.long)
    padding[0, :4] = 0
    given = dict(input_ids=tokens, attention_mask=padding, labels=tokens)
    twin = copy.deepcopy(model).to("tiny")
    with torch.no_grad():
        check(twin(**to(given, "tiny")).logits, model(**given).logits)
        if kind != "BertForMaskedLM":
            ask = dict(max_new_tokens=6, min_new_tokens=6, do_sample=False)
            want = model.generate(tokens, attention_mask=padding, **ask)
            assert torch.equal(twin.generate(tokens.to("tiny"), attention_mask=padding.to("tiny"), **ask).cpu(), want)

    def step_of(model, device):
        here, optimizer = to(given, device), adam(model.parameters())

        def step(model):
            optimizer.zero_grad()
            loss = model(**here).loss
            loss.backward()
            optimizer.step()
            return loss.detach()
        return step
    no_new_program(*same_training(model.train(), step_of))
