const MAX_ANSWER_BYTES = 262_144;

/** Why an issuer gave no keys, in words for operators. Contains nothing of its answer. */
export class IssuerError extends Error {}

/**
 * GETs a JSON object. Follows no redirect, so that only the configured host is asked.
 * @throws IssuerError
 */
export async function fetchJson(
  url: string,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  const answer = await fetch(url, {
    headers: { accept: 'application/json' },
    redirect: 'manual',
    signal,
  }).catch((error) => {
    throw new IssuerError(`${url} cannot be reached (${reasonOf(error)})`);
  });
  if (answer.status !== 200) {
    await answer.body?.cancel().catch(() => {});
    throw new IssuerError(`${url} answered ${answer.status}`);
  }
  return objectOf(await textOf(answer, url), url);
}

async function textOf({ body }: Response, url: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body ?? []) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_ANSWER_BYTES) throw new IssuerError(`the answer of ${url} is too long`);
    }
  } catch (error) {
    if (error instanceof IssuerError) throw error;
    throw new IssuerError(`the answer of ${url} was cut short (${reasonOf(error)})`);
  }
  return Buffer.concat(chunks).toString();
}

function objectOf(text: string, url: string): Record<string, unknown> {
  try {
    const parsed = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null) return parsed;
  } catch {
    // The text of the parse error would contain the answer.
  }
  throw new IssuerError(`${url} did not answer with a JSON object`);
}

function reasonOf(error: unknown): string {
  const { name, cause } = error as Error & { cause?: { code?: string } };
  return name === 'TimeoutError' ? 'no answer in time' : (cause?.code ?? 'failed');
}
