/**
 * The DOM by small functions. Text becomes text nodes and nothing else: what a client is called,
 * or a value of the playground, is never read as HTML.
 */
export type Child = Node | string | null | undefined | false;

type Props = Record<string, string | boolean | number | undefined | ((event: Event) => void)>;

/**
 * An element. A property with a function is a listener of that event, `true` an empty attribute;
 * `false` and undefined set nothing.
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

/** A path of 16 by 16 that only decorates: its words stand beside it. */
export function icon(path: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  setProps(svg, { viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': 'true' });
  const shape = document.createElementNS(SVG, 'path');
  shape.setAttribute('d', path);
  svg.append(shape);
  return svg;
}

/** Sets the text where it is another: a text that is set anew loses what is selected in it. */
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
