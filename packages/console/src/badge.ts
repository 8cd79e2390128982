import { el, icon } from './dom.ts';
import type { Level } from './health.ts';

/** Each level has its own shape, because some readers cannot tell the colors apart. */
const SHAPES: Record<Level | 'live', string> = {
  live: 'M8 4.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7',
  good: 'M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1m3 4.3-4 4.2-2-1.9-1 1.1 3.1 2.8 5-5.2z',
  neutral: 'M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1M4.5 7.2v1.6h7V7.2z',
  warning: 'M8 1.2 15.4 14.5H.6zM7.2 6v4h1.6V6zm0 5.2v1.6h1.6v-1.6z',
  bad: 'M5 1h6l4 4v6l-4 4H5l-4-4V5zm1 3.9L4.9 6l2 2-2 2L6 11.1l2-2 2 2 1.1-1.1-2-2 2-2L10 4.9l-2 2z',
};

export function levelIcon(level: Level | 'live'): SVGSVGElement {
  return icon(SHAPES[level]);
}

export function badge(level: Level, text: string): HTMLElement {
  return el('span', { class: `badge ${level}` }, levelIcon(level), el('span', {}, text));
}
