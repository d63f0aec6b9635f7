"""Networks that the zoo has not, with seeded random weights: NAME.onnx in f32, and NAME.pt2 in f16 for PyTorch beside it.

    python benches/networks.py FOLDER [NAME ..]
    platoon bench --board h200 --zoo FOLDER/swin_t.onnx FOLDER/unet.onnx --peer python3

Needs torch, torchvision, onnx; segformer_b0, dinov2_s, yolos_t and mobilevit_s need transformers. The programs are saved for the
GPU where there is one. yolo8 and unet are what such networks are made of, not anyone's: their tops are as wide and as deep.
"""

import os
import sys
import warnings

import torch
import torchvision
from torch import nn

M = torchvision.models
SEED = 0


class Output(nn.Module):
    """One output of a module that has several."""

    def __init__(self, module, key, named=None):
        super().__init__()
        self.module, self.key, self.named = module, key, named

    def forward(self, x):
        found = self.module(**{self.named: x}) if self.named else self.module(x)
        return found[self.key]


def segmentation(make):
    return Output(make(weights=None, weights_backbone=None), "out")


def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return Output(SegformerForSemanticSegmentation(SegformerConfig(num_labels=19)), "logits", "pixel_values")


def dinov2():
    from transformers import Dinov2Config, Dinov2Model

    config = Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14)
    return Output(Dinov2Model(config), "last_hidden_state", "pixel_values")


def yolos():
    from transformers import YolosConfig, YolosForObjectDetection

    config = YolosConfig(hidden_size=192, num_attention_heads=3, intermediate_size=768, image_size=[512, 864])
    return Output(YolosForObjectDetection(config), "logits", "pixel_values")


def mobilevit():
    from transformers import MobileViTConfig, MobileViTForImageClassification

    return Output(MobileViTForImageClassification(MobileViTConfig()), "logits", "pixel_values")


def conv(inputs, outputs, side=3, step=1, act=nn.SiLU):
    return nn.Sequential(nn.Conv2d(inputs, outputs, side, step, side // 2, bias=False), nn.BatchNorm2d(outputs), act())


class Bottleneck(nn.Module):
    def __init__(self, channels, add):
        super().__init__()
        self.first, self.last, self.add = conv(channels, channels), conv(channels, channels), add

    def forward(self, x):
        y = self.last(self.first(x))
        return x + y if self.add else y


class Split(nn.Module):
    """Bottlenecks one behind the other, all of whose results are read."""

    def __init__(self, inputs, outputs, count, add):
        super().__init__()
        half = outputs // 2
        self.enter, self.leave = conv(inputs, outputs, 1), conv((2 + count) * half, outputs, 1)
        self.parts = nn.ModuleList(Bottleneck(half, add) for _ in range(count))

    def forward(self, x):
        found = list(self.enter(x).chunk(2, 1))
        for part in self.parts:
            found.append(part(found[-1]))
        return self.leave(torch.cat(found, 1))


class Pooled(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.enter, self.leave = conv(channels, channels // 2, 1), conv(2 * channels, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        found = [self.enter(x)]
        for _ in range(3):
            found.append(self.pool(found[-1]))
        return self.leave(torch.cat(found, 1))


class Yolo(nn.Module):
    """A detector of YOLOv8's kind: a backbone of split bottlenecks, two ways over its pyramid, boxes as distributions."""

    BINS = 16

    def __init__(self, width, depths=(1, 2, 2, 1), classes=80):
        super().__init__()
        c = [width << level for level in range(5)]
        steps = [conv(3, c[0], 3, 2)]
        for level, depth in enumerate(depths):
            steps.append(nn.Sequential(conv(c[level], c[level + 1], 3, 2), Split(c[level + 1], c[level + 1], depth, True)))
        self.steps, self.pooled, self.up = nn.ModuleList(steps), Pooled(c[4]), nn.Upsample(scale_factor=2)
        self.to4, self.to3 = Split(c[4] + c[3], c[3], 1, False), Split(c[3] + c[2], c[2], 1, False)
        self.down3, self.from3 = conv(c[2], c[2], 3, 2), Split(c[2] + c[3], c[3], 1, False)
        self.down4, self.from4 = conv(c[3], c[3], 3, 2), Split(c[3] + c[4], c[4], 1, False)

        def heads(width, outputs):
            one = lambda inputs: nn.Sequential(conv(inputs, width), conv(width, width), nn.Conv2d(width, outputs, 1))
            return nn.ModuleList(one(inputs) for inputs in c[2:])

        self.boxes, self.classes = heads(max(c[2] // 4, 64), 4 * self.BINS), heads(max(c[2], min(classes, 100)), classes)
        self.register_buffer("bins", torch.arange(float(self.BINS)).view(1, self.BINS, 1, 1))

    def forward(self, x):
        levels = []
        for step in self.steps:
            x = step(x)
            levels.append(x)
        p3, p4, p5 = levels[2], levels[3], self.pooled(levels[4])
        n4 = self.to4(torch.cat([self.up(p5), p4], 1))
        n3 = self.to3(torch.cat([self.up(n4), p3], 1))
        n4 = self.from3(torch.cat([self.down3(n3), n4], 1))
        n5 = self.from4(torch.cat([self.down4(n4), p5], 1))
        found = [n3, n4, n5]
        boxes, classes = (torch.cat([h(y).flatten(2) for h, y in zip(heads, found)], 2) for heads in (self.boxes, self.classes))
        batch, _, places = boxes.shape
        sides = boxes.view(batch, 4, self.BINS, places).transpose(1, 2).softmax(1)
        return torch.cat([(sides * self.bins).sum(1), classes.sigmoid()], 1)


class UNet(nn.Module):
    def __init__(self, width=32, classes=8):
        super().__init__()
        c = [width << level for level in range(5)]
        twice = lambda inputs, outputs: nn.Sequential(conv(inputs, outputs, act=nn.ReLU), conv(outputs, outputs, act=nn.ReLU))
        self.down = nn.ModuleList(twice(a, b) for a, b in zip([3] + c, c))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(c, c[1:]))
        self.up = nn.ModuleList(twice(2 * a, a) for a in c[:-1])
        self.last, self.pool = nn.Conv2d(c[0], classes, 1), nn.MaxPool2d(2)

    def forward(self, x):
        kept = []
        for level, down in enumerate(self.down):
            x = down(self.pool(x) if level else x)
            kept.append(x)
        for level in reversed(range(len(self.up))):
            x = self.up[level](torch.cat([kept[level], self.widen[level](x)], 1))
        return self.last(x)


ROAD, PICTURE = (3, 512, 1024), (3, 224, 224)
# Name -> constructor, input of one sample.
NETWORKS = {
    "mobilenet_v2": (M.mobilenet_v2, PICTURE),
    "efficientnet_b0": (M.efficientnet_b0, PICTURE),
    "efficientnet_v2_s": (M.efficientnet_v2_s, (3, 384, 384)),
    "regnet_y_1_6gf": (M.regnet_y_1_6gf, PICTURE),
    "resnext50": (M.resnext50_32x4d, PICTURE),
    "wide_resnet50": (M.wide_resnet50_2, PICTURE),
    "shufflenet_v2": (M.shufflenet_v2_x1_0, PICTURE),
    "googlenet": (lambda: M.googlenet(init_weights=False, aux_logits=False), PICTURE),
    "inception_v3": (lambda: M.inception_v3(init_weights=False, aux_logits=False), (3, 299, 299)),
    "convnext_tiny": (M.convnext_tiny, PICTURE),
    "swin_t": (M.swin_t, PICTURE),
    "maxvit_t": (M.maxvit_t, PICTURE),
    "mobilevit_s": (mobilevit, (3, 256, 256)),
    "dinov2_s": (dinov2, (3, 518, 518)),
    "yolos_t": (yolos, (3, 512, 864)),
    "segformer_b0": (segformer, ROAD),
    "fcn_resnet50": (lambda: segmentation(M.segmentation.fcn_resnet50), ROAD),
    "unet": (UNet, ROAD),
    "yolo8n": (lambda: Yolo(16), (3, 384, 640)),
    "yolo8s": (lambda: Yolo(32), (3, 384, 640)),
}


def export(folder, name):
    """NAME is a network's, or with `_b8` that of a batch of 8."""
    base, batch = (name[:-3], 8) if name.endswith("_b8") else (name, 1)
    make, shape = NETWORKS[base]
    torch.manual_seed(SEED)
    module, x = make().eval(), torch.randn(batch, *shape)
    path = os.path.join(folder, name)
    with torch.no_grad():
        torch.onnx.export(module, (x,), path + ".onnx", dynamo=False, opset_version=18)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        program = torch.export.export(module.half().to(device), (x.half().to(device),))
        torch.export.save(program, path + ".pt2")


def main(folder, *names):
    warnings.filterwarnings("ignore")
    os.makedirs(folder, exist_ok=True)
    for name in names or NETWORKS:
        export(folder, name)
        print(os.path.join(folder, name + ".onnx"), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
