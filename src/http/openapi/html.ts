/** HTML that is one: everything else is escaped where it is put in. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Content = string | number | Html | readonly Html[];

export function html(pieces: TemplateStringsArray, ...contents: readonly Content[]): Html {
  return new Html(pieces.reduce((text, piece, i) => text + textOf(contents[i - 1]!) + piece));
}

function textOf(content: Content): string {
  if (content instanceof Html) return content.text;
  if (typeof content === 'object') return content.map(({ text }) => text).join('');
  return String(content).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** CommonMark, as far as introduction() and descriptions go. */
export function markdown(text: string): Html[] {
  return text.split('\n\n').map((block) => {
    if (block.startsWith('## ')) return html`<h2>${inline(block.slice(3))}</h2>\n`;
    if (!block.startsWith('- ')) return html`<p>${inline(block)}</p>\n`;
    const items = block.slice(2).split('\n- ');
    return html`<ul>${items.map((item) => html`<li>${inline(item)}</li>`)}</ul>\n`;
  });
}

/** Text with `code`. */
export function inline(text: string): Html[] {
  return text
    .split('`')
    .map((piece, i) => (i % 2 === 1 ? html`<code>${piece}</code>` : html`${piece}`));
}
