import { issueApiKey, listApiKeys, newApiKey, revokeApiKey } from '../service/clients.ts';
import type { Vault } from '../service/vault.ts';
import type { ApiKey } from '../types.ts';
import { type OutputOptions, print, table, time } from './output.ts';

export interface IssueOptions extends OutputOptions {
  readonly client: string;
  readonly expires?: Date;
}

/** For a file that BOOTSTRAP_API_KEY_FILE names: no vault knows the key yet. */
export function apiKeyNew(options: OutputOptions): void {
  const api_key = newApiKey();
  print(options, { api_key }, api_key);
}

export async function apiKeyIssue(vault: Vault, options: IssueOptions): Promise<void> {
  const { api_key, api_key_id, client_id, expires_at } = await issueApiKey(
    vault,
    options.client,
    options.expires ?? null,
  );
  print(
    options,
    { api_key_id, client_id, api_key, expires_at },
    `API key  ${api_key}  (shown only this once)\nid       ${api_key_id}\nexpires  ${time(expires_at)}`,
  );
}

export async function apiKeyList(
  vault: Vault,
  options: OutputOptions & { readonly client?: string },
): Promise<void> {
  const api_keys = await listApiKeys(vault, options.client);
  const rows = api_keys.map((key) => [
    key.api_key_id,
    key.client_id,
    state(key),
    time(key.created_at),
    time(key.last_used_at),
    time(key.expires_at),
    time(key.revoked_at),
  ]);
  print(
    options,
    api_keys,
    table(['API KEY', 'CLIENT', 'STATE', 'CREATED', 'LAST USED', 'EXPIRES', 'REVOKED'], rows),
  );
}

export async function apiKeyRevoke(
  vault: Vault,
  api_key_id: string,
  options: OutputOptions,
): Promise<void> {
  const api_key = await revokeApiKey(vault, api_key_id);
  print(options, api_key, `${api_key_id} is revoked; it stops working within 5 s.`);
}

function state(key: ApiKey): string {
  if (key.revoked_at !== null) return 'revoked';
  return key.expires_at !== null && key.expires_at <= new Date() ? 'expired' : 'live';
}
