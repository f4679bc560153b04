"""Makes docs/dashboard.png: trains eight lunar landers, and takes a picture of the page.

    python docs/picture.py [FILE]

Needs the extras `test` (Box2D, playwright, Pillow) and a Chromium; takes about two minutes.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

RUN = """
name: lunar_lander
environment: {id: LunarLander-v3}
rollout: {shards: 8, envs_per_shard: 1, steps: 256}
algorithm: {name: ppo, gamma: 0.999, gae_lambda: 0.98, entropy_coef: 0.01}
scheduler: {off_policy_degree: 1}
evaluation: {every_env_steps: 40_000, episodes: 5}
dashboard: {enabled: true, port: 0, evaluation: false, cpu_share: 0.2}
stop: {time_s: 600}
"""
WARM_UP_S = 100.0  # a minute of time line, and something in the charts
COLOURS = 128  # of the file, which is half as large with them
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def main() -> None:
    """Train, look, and write the picture."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("dashboard.png")
    with tempfile.TemporaryDirectory(prefix="fastloop-picture-") as folder:
        config = Path(folder, "run.yaml")
        config.write_text(RUN)
        run = subprocess.Popen(
            [sys.executable, "-m", "fast_core.tools.cli", "launch", str(config)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        )
        try:
            picture = look(address(run, Path(folder)))
        finally:
            run.send_signal(signal.SIGINT)
            run.wait()
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS)
    image.save(target, optimize=True)
    print(f"{target}: {target.stat().st_size / 1024:.0f} KiB")


def address(run: subprocess.Popen[bytes], folder: Path) -> str:
    """Where the run serves its page, once it does."""
    while run.poll() is None:
        for found in folder.glob("runs/*/*/dashboard.json"):
            page = json.loads(found.read_text())
            return f"{page['url']}?token={page['token']}"
        time.sleep(0.2)
    raise SystemExit("the run ended before it served a page")


def look(url: str) -> bytes:
    """The page as a PNG, when it has been watched for a while."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("a picture needs Chromium (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="dark")
        page.goto(url)
        page.wait_for_timeout(1000 * WARM_UP_S)
        picture = page.screenshot()
        browser.close()
    return picture


if __name__ == "__main__":
    main()
