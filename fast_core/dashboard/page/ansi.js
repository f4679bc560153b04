// Text as terminals show it: colours of it become elements, whatever else they know is left out.

import { make } from "./dom.js";

// ESC [ numbers letter; ESC ] title, ended by BEL or ESC \; ESC ( B and the like; other controls.
const CODE = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]/g;
const PLAIN = { bold: false, swapped: false, front: null, back: null };

/** The text in elements of one style each. */
export function styled(text) {
  const parts = document.createDocumentFragment();
  const style = { ...PLAIN };
  let at = 0;
  for (const code of text.matchAll(CODE)) {
    add(parts, text.slice(at, code.index), style);
    if (code[2] === "m") change(style, code[1].split(";").map(Number));
    at = code.index + code[0].length;
  }
  add(parts, text.slice(at), style);
  return parts;
}

function change(style, numbers) {
  for (const number of numbers) {
    if (number === 0) Object.assign(style, PLAIN);
    else if (number === 1 || number === 22) style.bold = number === 1;
    else if (number === 7 || number === 27) style.swapped = number === 7;
    else if (number === 38 || number === 48) return; // of 256 colours or more
    else if (number >= 30 && number <= 39) style.front = number === 39 ? null : number - 30;
    else if (number >= 40 && number <= 49) style.back = number === 49 ? null : number - 40;
    else if (number >= 90 && number <= 97) style.front = number - 90;
    else if (number >= 100 && number <= 107) style.back = number - 100;
  }
}

function add(parts, text, { bold, swapped, front, back }) {
  if (!text) return;
  const ground = swapped ? front ?? 7 : back;
  const part = make("span", [bold && "bold", ground !== null && "back"].filter(Boolean).join(" "), {}, text);
  if (ground !== null) part.style.backgroundColor = `var(--ansi-${ground})`;
  else if (front !== null) part.style.color = `var(--ansi-${front})`;
  parts.append(part);
}
