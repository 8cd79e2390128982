import { recall, remember } from './remembered.ts';

export type Theme = 'system' | 'light' | 'dark';

const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

export function chosenTheme(): Theme {
  return THEMES.find((theme) => theme === recall('theme')) ?? 'system';
}

/** @param redraw called when the system's theme changes the colors */
export function startTheme(redraw: () => void): void {
  apply(chosenTheme());
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', () => {
    apply(chosenTheme());
    redraw();
  });
}

export function chooseTheme(theme: string): void {
  remember('theme', theme);
  apply(chosenTheme());
}

/** A color of the stylesheet, for drawing on a canvas. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function apply(theme: Theme): void {
  const isDark = theme === 'dark' || (theme === 'system' && matches('dark'));
  document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
}

function matches(scheme: string): boolean {
  return matchMedia(`(prefers-color-scheme: ${scheme})`).matches;
}
