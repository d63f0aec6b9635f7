"""The zoo as PyTorch modules: torchvision's, and the two over tokens that it does not have.

Parameters have the names that the zoo's graphs give their constants; what a module returns is in the order of the graph's
outputs. Held in one function, so that whoever runs this text chooses when PyTorch is imported.
"""


def zoo():
    """Short name -> (constructor, input as ("image", height, width) or ("tokens", length, vocabulary), usual batch)."""
    import torch
    import torchvision.models as vision
    from torch import nn

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(20000, 256)
            self.l = nn.LSTM(256, 256, 2, batch_first=True)
            self.f = nn.Linear(256, 6)

        def forward(self, tokens):
            states, _ = self.l(self.e(tokens))
            return self.f(states[:, -1])

    class Bst(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(50000, 64)
            self.p = nn.Parameter(torch.zeros(21, 64))
            self.t = nn.TransformerEncoderLayer(64, 8, 256, 0.0, "relu", batch_first=True)
            sizes = [21 * 64, 1024, 512, 256]
            layers = []
            for inputs, outputs in zip(sizes, sizes[1:]):
                layers += [nn.Linear(inputs, outputs), nn.LeakyReLU()]
            self.m = nn.Sequential(*layers, nn.Linear(256, 1))

        def forward(self, tokens):
            return self.m(self.t(self.e(tokens) + self.p).flatten(1))

    class Ssd(nn.Module):
        """Without the decoding of boxes."""

        def __init__(self):
            super().__init__()
            ssd = vision.detection.ssd300_vgg16(weights=None, weights_backbone=None)
            self.backbone, self.head = ssd.backbone, ssd.head

        def forward(self, image):
            found = self.head(list(self.backbone(image).values()))
            return found["bbox_regression"], found["cls_logits"]

    class DeepLab(nn.Module):
        def __init__(self):
            super().__init__()
            whole = vision.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
            self.backbone, self.classifier = whole.backbone, whole.classifier

        def forward(self, image):
            scores = self.classifier(self.backbone(image)["out"])
            return nn.functional.interpolate(scores, size=image.shape[-2:], mode="bilinear", align_corners=False)

    picture = ("image", 224, 224)
    return {
        "alex": (vision.alexnet, picture, 8),
        "v16": (vision.vgg16, picture, 8),
        "r18": (vision.resnet18, picture, 8),
        "r34": (vision.resnet34, picture, 8),
        "r50": (vision.resnet50, picture, 8),
        "r101": (vision.resnet101, picture, 8),
        "m3": (vision.mobilenet_v3_large, picture, 8),
        "d121": (vision.densenet121, picture, 8),
        "lstm": (Lstm, ("tokens", 32, 20000), 128),
        "bst": (Bst, ("tokens", 21, 50000), 64),
        "ssd": (Ssd, ("image", 300, 300), 1),
        "dlv3": (DeepLab, ("image", 512, 1024), 1),
        "vit": (vision.vit_b_16, picture, 8),
    }
