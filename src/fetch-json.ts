import { errorCode } from './errors.ts';

/** Why a server gave no JSON: a code for logs, and words. They contain nothing of its response. */
export class NoJson extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Fetches JSON. Follows no redirect, so that only the configured host is asked.
 * @throws NoJson
 */
export async function fetchJson(
  url: string,
  { headers, ...init }: RequestInit & { readonly headers?: Record<string, string> },
  maxBytes: number,
): Promise<unknown> {
  try {
    const accepting = { accept: 'application/json', ...headers };
    const response = await fetch(url, { ...init, headers: accepting, redirect: 'manual' });
    return JSON.parse(await textOf(response, maxBytes));
  } catch (error) {
    if (error instanceof NoJson) throw error;
    // The message of a parse error would quote the response.
    if (error instanceof SyntaxError) throw new NoJson('BAD_ANSWER', 'did not answer with JSON');
    const { name, cause } = error as Error;
    const code = name === 'TimeoutError' ? 'TIMEOUT' : (errorCode(cause) ?? 'NO_ANSWER');
    throw new NoJson(code, `cannot be reached (${code})`);
  }
}

async function textOf({ status, body }: Response, maxBytes: number): Promise<string> {
  if (status !== 200) {
    await body?.cancel();
    throw new NoJson(`STATUS_${status}`, `answered ${status}`);
  }
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > maxBytes) throw new NoJson('BAD_ANSWER', 'gave an answer that is too long');
  }
  return Buffer.concat(chunks).toString();
}
