import { recall, remember } from './send.ts';

export const THEMES = { system: 'System', light: 'Light', dark: 'Dark' } as const;
type Theme = keyof typeof THEMES;

const systemIsDark = matchMedia('(prefers-color-scheme: dark)');

export function chosenTheme(): Theme {
  const chosen = recall('theme');
  return chosen === 'light' || chosen === 'dark' ? chosen : 'system';
}

export function chooseTheme(theme: string): void {
  remember('theme', theme);
  applyTheme();
}

export function applyTheme(): void {
  const theme = chosenTheme();
  document.documentElement.style.colorScheme = theme === 'system' ? '' : theme;
}

/** Changes with the colors, for what does not follow the stylesheet by itself. */
export function themeShown(): string {
  return `${chosenTheme()} ${systemIsDark.matches}`;
}

/** @param changed called when the system's theme changes the colors */
export function followSystem(changed: () => void): void {
  systemIsDark.addEventListener('change', changed);
}

const probe = document.createElement('i');

/** A color of the stylesheet, for drawing on a canvas. */
export function color(name: string): string {
  probe.hidden = true;
  document.body.append(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
