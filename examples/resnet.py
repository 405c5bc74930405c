"""Trains a ResNet-18 on handwritten digits enlarged to 32x32. Plain PyTorch. The last line is "accuracy 0.9xxx"."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    """Two 3x3 convolutions with a shortcut around them."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.shortcut = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


class ResNet18(nn.Module):
    def __init__(self, width=64, classes=10):
        super().__init__()
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.layers = nn.Sequential()
        for i, (before, after) in enumerate(zip(widths, widths[1:])):
            self.layers.append(Residual(before, after, 1 if i == 0 else 2))
            self.layers.append(Residual(after, after, 1))
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1).flatten(1))


def load():
    from sklearn.datasets import load_digits

    digits = load_digits()
    return torch.tensor(digits.images, dtype=torch.get_default_dtype()).unsqueeze(1) / 16, torch.tensor(digits.target)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--device", default="tiny")
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--steps", type=int, default=0, help="stop after this many steps")
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--width", type=int, default=16, help="channels of the first stage; 64 is the ResNet-18 of the paper")
    ap.add_argument("--size", type=int, default=32, help="side of the images")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--double", action="store_true", help="in float64")
    ap.add_argument("--losses", metavar="FILE", help="write the loss of every step, one a line")
    a = ap.parse_args()

    torch.set_default_dtype(torch.float64 if a.double else torch.float32)
    torch.manual_seed(a.seed)
    x, y = load()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(a.seed))
    x, y = x[order].to(a.device), y[order].to(a.device)
    x = F.interpolate(x, size=(a.size, a.size), mode="bilinear", align_corners=False)
    held_out = 360
    model = ResNet18(a.width).to(a.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    batches = (len(x) - held_out) // a.batch
    total = a.steps or a.epochs * batches
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=total + 1)

    losses, start = [], time.perf_counter()
    for step in range(total):
        begin = held_out + step % batches * a.batch
        loss = F.cross_entropy(model(x[begin:begin + a.batch]), y[begin:begin + a.batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
        if (step + 1) % batches == 0 or step + 1 == total:
            print(f"step {step + 1}: loss {loss.item():.4f}, {(time.perf_counter() - start) / (step + 1) * 1e3:.0f} ms a step", flush=True)

    if a.losses:
        with open(a.losses, "w") as f:
            f.writelines(f"{v:.9g}\n" for v in torch.stack(losses).tolist())
    model.eval()
    with torch.no_grad():
        right = (model(x[:held_out]).argmax(1) == y[:held_out]).float().mean().item()
    print(f"accuracy {right:.4f}")


if __name__ == "__main__":
    main()
