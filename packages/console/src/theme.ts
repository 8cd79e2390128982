import { feed } from './feed.ts';
import { recall, remember } from './send.ts';

export const THEMES = { system: 'System', light: 'Light', dark: 'Dark' } as const;

const systemIsDark = matchMedia('(prefers-color-scheme: dark)');
systemIsDark.addEventListener('change', () => feed.changed());

export function chosenTheme(): string {
  const chosen = recall('theme') ?? '';
  return chosen in THEMES ? chosen : 'system';
}

export function chooseTheme(theme: string): void {
  remember('theme', theme);
  applyTheme();
  feed.changed();
}

export function applyTheme(): void {
  const theme = chosenTheme();
  document.documentElement.style.colorScheme = theme === 'system' ? '' : theme;
}

/** Changes with the colors, for what does not follow the stylesheet by itself. */
export function themeShown(): string {
  return `${chosenTheme()} ${systemIsDark.matches}`;
}

const probe = document.createElement('i');
probe.hidden = true;
document.body.append(probe);

/** A color of the stylesheet, for drawing on a canvas. */
export function color(name: string): string {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
