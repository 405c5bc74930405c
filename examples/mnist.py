"""Trains a small convolutional network on handwritten digits and prints its accuracy on digits that it has not seen.

The digits are scikit-learn's copy of the UCI set: 1797 real 8x8 scans. Plain PyTorch; the device is a command-line argument.
The last line is "accuracy 0.9xxx".
"""
import argparse
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.hidden, self.out = nn.Linear(64 * 4 * 4, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.out(F.relu(self.hidden(x.flatten(1))))


def load(seed, held_out=360):
    """Training and held-out images, scaled to 0..1, with their labels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    test, train = order[:held_out], order[held_out:]
    return x[train], y[train], x[test], y[test]


def progress(epoch, epochs, done, total):
    if sys.stderr.isatty():
        bar = "#" * (24 * done // total)
        print(f"\repoch {epoch + 1}/{epochs} [{bar:24s}] {done}/{total}", end="\r" if done == total else "", file=sys.stderr, flush=True)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    right = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return right


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--device", default="tiny", help="tiny, cpu, cuda ...")
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--batch", type=int, default=96)
    ap.add_argument("--steps", type=int, default=0, help="stop after this many steps")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--losses", metavar="FILE", help="write the loss of every step, one a line")
    a = ap.parse_args()

    torch.manual_seed(a.seed)
    train_x, train_y, test_x, test_y = (t.to(a.device) for t in load(a.seed))
    model = DigitNet().to(a.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    batches = len(train_x) // a.batch
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, a.epochs * batches)
    shuffle = torch.Generator().manual_seed(a.seed)

    losses, left = [], a.steps or a.epochs * batches
    for epoch in range(a.epochs):
        start = time.perf_counter()
        order = torch.randperm(len(train_x), generator=shuffle).to(a.device)
        first = len(losses)
        for i in range(min(batches, left)):
            rows = order[i * a.batch:(i + 1) * a.batch]
            optimizer.zero_grad()
            loss = F.cross_entropy(model(train_x[rows]), train_y[rows])
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
            progress(epoch, a.epochs, i + 1, batches)
        left -= len(losses) - first
        mean = torch.stack(losses[first:]).mean().item()
        print(f"epoch {epoch + 1:2d}: loss {mean:.4f}, {time.perf_counter() - start:.2f} s", flush=True)
        if left <= 0:
            break

    if a.losses:
        with open(a.losses, "w") as f:
            f.writelines(f"{v:.9g}\n" for v in torch.stack(losses).tolist())
    print(f"accuracy {accuracy(model, test_x, test_y):.4f}")


if __name__ == "__main__":
    main()
