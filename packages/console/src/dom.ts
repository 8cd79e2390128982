/**
 * Small functions for the DOM. Text becomes text nodes only, so that the name of a client or a
 * value in the playground is never parsed as HTML.
 */
export type Child = Node | string | null | undefined | false;

type Props = Record<string, string | boolean | number | undefined | ((event: Event) => void)>;

/**
 * Makes an element. A function listens to the event of that name. `true` sets an empty attribute;
 * `false` and undefined set none.
 */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  setProps(element, props);
  element.append(...present(children));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

/** A decorative icon of 16 by 16. Its meaning must stand beside it as text. */
export function icon(path: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  setProps(svg, { viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': 'true' });
  const shape = document.createElementNS(SVG, 'path');
  shape.setAttribute('d', path);
  svg.append(shape);
  return svg;
}

/** Sets the text only if it changed, because setting it would clear a selection. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function setChildren(element: Element, ...children: readonly Child[]): void {
  element.replaceChildren(...present(children));
}

function setProps(element: Element, props: Props): void {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
}

function present(children: readonly Child[]): (Node | string)[] {
  return children.filter((child) => child !== null && child !== undefined && child !== false);
}
