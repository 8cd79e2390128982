import type { Feed } from './feed.ts';

/** One page of the console. */
export interface View {
  /** The part of the address after `#/`. */
  readonly route: string;
  readonly title: string;
  readonly element: HTMLElement;
  /** Called after every change while the view is visible. */
  update(feed: Feed): void;
  /** Draws again after the theme changed. */
  redraw(): void;
}
