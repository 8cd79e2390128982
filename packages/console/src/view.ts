import type { Feed } from './feed.ts';

/** One page of the console. */
export interface View {
  /** In the address, after `#/`. */
  readonly route: string;
  readonly title: string;
  readonly element: HTMLElement;
  /** Called while it is seen, after every change. */
  update(feed: Feed): void;
  /** With the colors of another theme. */
  redraw(): void;
}
