"""The settings of an image classification run."""

import dataclasses

from recipes.engine.config import at_most_one, check_ranges, check_steps, option, the_one

MODELS = ("resnet34", "resnet50", "resnet101", "resnet152", "small")
ATTENTIONS = ("none", "aa", "ea")
AUGMENTATIONS = ("inception", "pad_crop", "none")
DATA = ("images", "records", "tfds", "embedded")
# Titles of groups of settings, by their first one.
GROUPS = {
    "images": "data",
    "image_size": "pixels",
    "model": "model",
    "epochs": "training",
    "sample_images": "output",
}


@dataclasses.dataclass(frozen=True)
class ImageNetConfig:
    """Every setting of a run. Other values, of smaller data sets, are in `recipes/configs`.

    The defaults are those of Wang et al. 2021, "Evolving attention with residual convolutions", for ImageNet.
    """

    # Data
    images: str | None = option(None, "folder with a folder for each split, and in it one for each class")
    records: str | None = option(None, "folder of TFRecords such as train-00000-of-01024, in place of image files")
    tfds: str | None = option(None, "TensorFlow Datasets name such as imagenet2012, in place of files")
    embedded: bool = option(False, "the embedded task: scikit-learn's handwritten digits, 8 x 8 pixels")
    train_split: str = option("train", "split to train on: folder, beginning of file names, or tfds split")
    validation_split: str = option("validation", "split to evaluate on")
    validation_labels: str | None = option(
        None, "text file, lines of file name and class, for a validation split of --images without class folders"
    )
    class_names: str | None = option(
        None, "text file, a class a line in the order of labels; none: names of the folders, or numbers"
    )
    num_classes: int | None = option(None, "classes of --records, unless --class-names has them", at_least=2)
    first_label: int = option(1, "label of the first class in --records", at_least=0)
    max_images: int | None = option(None, "use only so many images of each split, chosen at random", at_least=1)
    # Pixels
    image_size: int = option(224, "pixels of a side that the model sees", at_least=8)
    resized: int | None = option(
        None, "to evaluate, the shorter side becomes so many pixels before the crop; none: see docs", at_least=8
    )
    augmentation: str = option("inception", "inception: random area and aspect; pad_crop: small images", AUGMENTATIONS)
    min_area: float = option(0.08, "smallest share of an image that inception crops", above=0, at_least=0.001)
    flip: bool = option(True, "mirror half of the images to train on")
    color_jitter: float = option(0.0, "brightness, contrast and saturation change by this share", at_least=0, below=1)
    # Model
    model: str = option("resnet50", "network; small: three stages for images of 32 pixels", MODELS)
    attention: str = option("none", "beside the 3 x 3 convolutions: aa: augmented, ea: evolving", ATTENTIONS)
    alpha: float | None = option(
        None, "share of the previous block's map; none: 0.5, and 0.7 for 101 and 152 layers", at_least=0
    )
    beta: float = option(1.0, "share of the convolved map", at_least=0)
    attention_kernel_size: int = option(3, "of the convolution over attention maps: 1, 3 or 5", at_least=1)
    skip: bool = option(True, "--no-skip: no map of the previous block, as alpha 0 (ablation of table 2)")
    convolution: bool = option(True, "--no-convolution: of the map, as beta 0 (ablation of table 2)")
    num_heads: int = option(8, "attention heads", at_least=1)
    key_ratio: float | None = option(None, "width of all keys as a share of the filters; none: the model's", above=0)
    value_ratio: float | None = option(None, "the same of all values; none: the model's", above=0)
    min_key_dim: int | None = option(None, "least width of a key of a head; none: the model's", at_least=1)
    attention_stages: tuple[int, ...] = option((-3, -2, -1), "stages with attention, counted from the last, -1")
    small_images: bool | None = option(None, "begin with 3 x 3 pixels and no pooling; none: only the model small")
    filters: int | None = option(None, "filters of the first stage; none: 64, of small 16", at_least=1)
    statistics_momentum: float = option(
        0.997, "share that batch normalisation's moving statistics keep in a step", at_least=0, below=1
    )
    blocks: int = option(3, "blocks in each stage of the model small", at_least=1)
    # Training
    epochs: int = option(100, "passes over the data", at_least=1)
    batch_size: int = option(32, "images a step, on each replica", at_least=1)
    learning_rate: float = option(0.128, "highest rate for 256 images a step; in proportion for others", above=0)
    warmup_epochs: float = option(5.0, "epochs in which the rate rises from 0", at_least=0)
    decay_epochs: tuple[int, ...] = option((30, 60, 80, 90), "epochs after which the rate is a tenth")
    momentum: float = option(0.9, "of SGD", at_least=0, below=1)
    weight_decay: float = option(
        1e-4, "times half the squared weights is in the loss, but for normalisation", at_least=0
    )
    label_smoothing: float = option(0.0, "share of a label spread over the classes", at_least=0, below=1)
    clipnorm: float | None = option(None, "largest norm of the whole gradient", above=0)
    time_limit: float | None = option(
        None,
        "start no epoch that would end later than so many minutes after the first one of this start of the command",
        above=0,
    )
    save_steps: int | None = option(
        1000, "save the state of training after each so many steps, besides each epoch; none: not", at_least=1
    )
    precision: str = option("float32", "dtype policy", ("float32", "mixed_float16", "mixed_bfloat16"))
    replicas: int | None = option(
        None, "none: all GPUs, else one CPU replica; n without GPUs splits the CPU", at_least=1
    )
    xla: bool | None = option(None, "compile training by XLA; none: yes on GPUs, no on CPUs")
    steps_per_execution: int = option(1, "training steps run in one go", at_least=1)
    seed: int = option(0, "of everything random", at_least=0)
    # Output
    sample_images: int = option(5, "validation images classified by the SavedModel at the end", at_least=0)
    gradient_norm: bool = option(False, "the gradient's norm in the history and in TensorBoard")
    profile_steps: tuple[int, ...] = option((), "first and last training step to profile for TensorBoard")
    run: str = option("runs/imagenet", "folder of the run")
    export: str | None = option(
        "saved_models/imagenet", "folder that gets a new numbered version of the SavedModel; none: no SavedModel"
    )

    def __post_init__(self):
        check_ranges(self)
        at_most_one(self, DATA)
        if self.records and not (self.class_names or self.num_classes):
            raise ValueError(f"--records needs --class-names or --num-classes. Received: records={self.records!r}")
        if self.validation_labels and not self.images:
            raise ValueError(
                f"--validation-labels needs --images. Received: validation_labels={self.validation_labels!r}"
            )
        if self.resized is not None and self.resized < self.image_size:
            raise ValueError(
                f"--resized must be at least --image-size, {self.image_size}. Received: resized={self.resized}"
            )
        if self.attention_kernel_size not in (1, 3, 5):
            raise ValueError(
                f"--attention-kernel-size is 1, 3 or 5. Received: attention_kernel_size={self.attention_kernel_size}"
            )
        if list(self.decay_epochs) != sorted(set(self.decay_epochs)):
            raise ValueError(f"--decay-epochs must ascend. Received: decay_epochs={self.decay_epochs}")
        check_steps("profile_steps", self.profile_steps)

    @property
    def data(self):
        """Which setting names the data: one of `DATA`.

        Raises:
            ValueError: if none does.
        """
        return the_one(self, DATA)

    @property
    def evaluation_side(self):
        """Pixels of the shorter side before the central crop: as 256 to 224 where training crops alike, else all."""
        if self.resized is not None:
            return self.resized
        return round(self.image_size * 256 / 224) if self.augmentation == "inception" else self.image_size

    @property
    def map_shares(self):
        """`(alpha, beta)` of evolving attention."""
        alpha = (0.7 if self.model in ("resnet101", "resnet152") else 0.5) if self.alpha is None else self.alpha
        return alpha if self.skip else 0.0, self.beta if self.convolution else 0.0
