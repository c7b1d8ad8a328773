"""ImageNet as Wightman et al. 2021, "ResNet strikes back", train ResNet-50 by their procedure A2.

    python -m recipes.imagenet --config resnet50_modern --images imagenet --attention evolving \\
        --attention-arguments alpha=0.5 beta=1

The paper reports 79.8 % top-1 accuracy without attention. These settings have not been run here.

From the paper: 300 epochs with 2,048 images a step, here 256 on each of 8 replicas, LAMB with a rate of 5e-3, warm-up,
cosine, weight decay, stochastic depth, RandAugment, MixUp and CutMix; evaluated on 95 % of the shorter side. The loss
is the cross-entropy of the classes, where theirs is a binary one of each class; repeated augmentation is left out.
"""

from recipes.imagenet.settings import ImageNetConfig

CONFIG = ImageNetConfig(
    validation="val",
    model="resnet50",
    model_arguments=dict(stochastic_depth=0.05),
    resized=236,
    epochs=300,
    batch_size=256,
    optimizer="lamb",
    learning_rate=6.25e-4,
    weight_decay=0.02,
    schedule="cosine",
    warmup_epochs=5.0,
    rand_augment=7,
    mixup=0.1,
    cutmix=1.0,
)
