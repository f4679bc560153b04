// Making elements, and changing them only where something changed.

/** An element with a class, attributes and children. */
export function make(tag, classes = "", attributes = {}, ...children) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function find(id) {
  return document.getElementById(id);
}

/** Set a text, if it is another one. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set an attribute, if it is another one. */
export function mark(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

/** Say something to who listens to the page: one polite live region for all that matters. */
export function tell(text) {
  put(find("spoken"), text);
}

const colours = new Map(); // asking for a style is slow, and lines are drawn often

/** A colour of the theme in force. */
export function colour(name) {
  if (!colours.has(name)) {
    const both = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
    const [light, dark] = both.match(/#\w+/g);
    colours.set(name, document.documentElement.dataset.theme === "dark" ? dark : light);
  }
  return colours.get(name);
}

/** Another theme is in force. */
export function forgetColours() {
  colours.clear();
}

/** The canvas's context, its bitmap as large as it is shown; null where it isn't shown. */
export function fitted(canvas) {
  const scale = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!width || !height) return null;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
