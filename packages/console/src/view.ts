import type { Feed } from './feed.ts';

/** One page of the console. */
export interface View {
  /** The part of the address after `#/`, up to the next slash. */
  readonly route: string;
  readonly title: string;
  /** The route of the view whose link leads here; undefined: the header has a link. */
  readonly parent?: string;
  readonly element: HTMLElement;
  /** Called after every change while the view is visible. */
  update(feed: Feed): void;
  /** Draws again after the theme changed. */
  redraw(): void;
}
