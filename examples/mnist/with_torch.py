"""The same three models with torch, on the GPU that the job was given, if any."""

import torch
from digits import SIDE, Example
from torch import nn

EPOCHS = 60


def build(model: str) -> nn.Module:
    """Make one of the three models."""
    if model == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 10))
    if model == "mlp":
        layers = [nn.Flatten(), nn.Linear(SIDE * SIDE, 128), nn.ReLU(), nn.Linear(128, 10)]
        return nn.Sequential(*layers)
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.LazyLinear(10))


def fit(model: str, seed: int, training: list[Example], testing: list[Example]) -> float:
    """Train with Adam; return the part of the tests it gets right."""
    torch.set_num_threads(1)  # other jobs share the cores
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, digits = _tensors(training, device)
    network = build(model).to(device)
    network(images[:1])  # lets lazy layers see their input
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), digits).backward()
        optimizer.step()
    tests, truth = _tensors(testing, device)
    return float((network(tests).argmax(dim=1) == truth).float().mean())


def _tensors(examples: list[Example], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.tensor([image for image, _ in examples], device=device)
    digits = torch.tensor([digit for _, digit in examples], device=device)
    return images.reshape(-1, 1, SIDE, SIDE), digits
