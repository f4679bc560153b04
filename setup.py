"""Builds FastLoop: the Python packages and two native extensions for CPython 3.11 and later."""

from itertools import chain
from pathlib import Path

from setuptools import Extension, find_packages, setup


def native(module: str, *flags: str) -> Extension:
    """A native module, of all sources in the folder `native` beside it."""
    folder = Path(*module.split(".")).parent / "native"
    return Extension(
        module,
        sources=sorted(path.as_posix() for path in folder.glob("*.cpp")),
        depends=sorted(path.as_posix() for path in folder.glob("*.hpp")),
        include_dirs=[folder.as_posix()],
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        extra_compile_args=[
            *("-std=c++17", "-O3", "-Wall", "-Wextra", "-g0", "-fvisibility=hidden", *flags)
        ],
        py_limited_api=True,
        language="c++",
    )


NATIVE = [
    native("fast_core.memory._native"),
    # A product and a sum rounded at once, on machines that can, would be other bits there. Nobody
    # looks at errno and the like, for which loops would not be computed in vectors.
    native(
        "fast_core.algos.muzero._native",
        *("-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno"),
    ),
]

# Simulators and what they need; FastLoop imports each when a configuration asks for it.
ENVIRONMENTS = {
    "atari": ["ale-py>=0.11", "opencv-python-headless"],
    "mujoco": ["gymnasium[mujoco]>=1.0"],
    "box2d": ["gymnasium[box2d]>=1.0"],
    "envpool": ["envpool>=1.2"],
    # there are wheels for x86-64 alone
    "retro": ["stable-retro>=1.0; platform_machine == 'x86_64'", "opencv-python-headless"],
}
# Not among those of the tests: jericho is compiled, and brings 250 MB of spaCy that we don't use.
TEXTGAME = ["textworld>=1.7", "jericho>=3.3", "pillow"]
VIDEO = ["imageio-ffmpeg"]  # `fastloop eval --video`, evaluation.video_every
WANDB = ["wandb>=0.19"]  # metrics.sinks: [wandb]
# `fastloop launch --dashboard`, `fastloop watch`; plotly for the script that draws charts.
DASHBOARD = ["starlette>=0.40", "uvicorn>=0.35", "websockets", "plotly>=6", "pillow"]
# The page in a real browser: Debian's Chromium, driven by playwright and judged by axe.
BROWSER = ["playwright", "axe-playwright-python"]
TENSORBOARD = ["tensorboard"]  # to look at what runs write without it
ONNX = ["onnx", "onnxruntime", "onnxscript"]  # `fastloop export RUN -o FILE.onnx`

setup(
    # Imported as fast_core; `fastloop` is somebody else's on the index.
    name="fastloop-rl",
    version="0.1.0",
    description="Trains reinforcement-learning policies as fast as the machine allows.",
    license="Apache-2.0",
    python_requires=">=3.11",
    # `algos/` and `configs/` are linked into fast_core: a user's own folders of these names are
    # others, wherever they stand.
    packages=find_packages(include=["fast_core", "fast_core.*"]),
    package_data={
        "fast_core": ["py.typed", "__init__.pyi", "configs/*.yaml"],
        "fast_core.dashboard": ["page/*"],
        "fast_core.memory": ["_native.pyi", "native/*.hpp", "native/*.cpp"],
        "fast_core.algos.muzero": ["_native.pyi", "native/*.hpp", "native/*.cpp"],
    },
    ext_modules=NATIVE,
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    entry_points={"console_scripts": ["fastloop=fast_core.tools.cli:main"]},
    install_requires=[
        "torch>=2.4,<=2.13.0",  # networks of one's own, images, exports; brings nine
        "numpy",  # policies and most learners compute in it
        "posix_ipc",  # shared memory
        "pyzmq",  # messages between nodes
        "pyyaml",  # configurations
        # What trains needs 1.0, and says so; GOPS, beside which we are installed, needs less.
        # With pygame, which draws the environments that every first try is made with.
        "gymnasium[classic-control]>=0.29",
        "msgspec",  # the types of configurations, messages and files
        "cloudpickle",  # environments that are Python objects; Gymnasium brings it anyway
        "rich",  # the live table; brings three
        "setproctitle",  # names of nodes in `ps` and `top`
        "threadpoolctl",  # threads of NumPy's BLAS, one for each node
    ],
    extras_require={
        **ENVIRONMENTS,
        "textgame": TEXTGAME,
        "video": VIDEO,
        "plot": ["matplotlib"],  # `fastloop compare -o FILE.png`
        "wandb": WANDB,
        "onnx": ONNX,
        "tensorboard": TENSORBOARD,
        "dashboard": DASHBOARD,
        "test": [
            "pytest",
            "pytest-timeout",
            "pytest-xdist",
            "hypothesis",
            "ruff",
            "mypy",
            "types-PyYAML",
            "psutil",
            "ipykernel",
            "nbclient",
            "pandas",
            *chain.from_iterable(ENVIRONMENTS.values()),
            *VIDEO,
            *WANDB,
            *ONNX,
            *TENSORBOARD,
            *DASHBOARD,
            *BROWSER,
        ],
        # Every peer of a benchmark that is on the index, and the simulators they run on.
        "bench": [
            "stable-baselines3",
            "cpprb",
            "torchrl",
            "onnxruntime",
            *ENVIRONMENTS["atari"],
            *ENVIRONMENTS["mujoco"],
        ],
    },
)
