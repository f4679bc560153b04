// Saving the last seconds of an environment as a film.

import { find, make, put, tell } from "./dom.js";
import { say } from "./words.js";

const SECONDS = 10;
const REASON_LENGTH = 200;

/** Fetch the clip of a tile and hand it to the browser's downloads. */
export async function save(tile, format, run) {
  const button = find("clip");
  if (button.disabled) return;
  button.disabled = true;
  put(button, say("saving_clip"));
  try {
    const query = new URLSearchParams({ tile: tile.number, format, seconds: SECONDS });
    const answer = await fetch(`api/clip?${query}`);
    if (!answer.ok) throw new Error((await answer.text()).slice(0, REASON_LENGTH) || answer.statusText);
    const name = `${run}-${tile.number + 1}.${format}`.replace(/[^\w.-]+/g, "_");
    const address = URL.createObjectURL(await answer.blob());
    make("a", "", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    report(say("clip_saved", { name }));
  } catch (error) {
    report(say("clip_failed", { why: error.message }));
  }
  put(button, say("save_clip"));
  button.disabled = false;
}

function report(text) {
  put(find("clip-said"), text);
  tell(text);
}
