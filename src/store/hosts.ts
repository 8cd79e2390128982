/** One server of a database URL. */
export interface Host {
  /** Host and port, for messages. Never the URL, which can contain a password. */
  readonly name: string;
  /** The URL with this host alone. */
  readonly url: string;
}

const MAX_HOSTS = 16;
const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/is;
const HOST = /^(\[[0-9a-f:.]+\]|[^\s:[\]]+)(?::(\d*))?$/i;
/**
 * pg treats these modes as verify-full and says so on standard error. libpq checks less in them.
 */
const CHECKED_MODES = /([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/;
const DEFAULT_PORT = '5432';
/**
 * All three mean the one server that has the vault. Any value that asks for a standby is refused.
 */
const SESSION_ATTRIBUTES = new Set(['read-write', 'primary', 'any']);

/**
 * The hosts of a database URL, at least one. Accepts the form of libpq that pg does not know:
 * `postgres://user@host1:5432,host2:5433/name`. undefined: not a database URL.
 */
export function databaseHosts(url: string): readonly Host[] | undefined {
  const [, before = '', hosts = '', after = ''] = PARTS.exec(url) ?? [];
  if (!hosts.includes(',')) {
    const parsed = parse(url);
    return parsed && [{ name: parsed.host, url: checked(url) }];
  }
  const found = hosts.split(',').map((host) => hostOf(host, before, after));
  return found.length <= MAX_HOSTS && found.every((host) => host !== undefined) ? found : undefined;
}

function hostOf(text: string, before: string, after: string): Host | undefined {
  const [, host, port] = HOST.exec(text) ?? [];
  if (host === undefined || Number(port || DEFAULT_PORT) === 0) return undefined;
  const url = `${before}${text}${after}`;
  const parameters = parse(url)?.searchParams;
  // pg would use these parameters for every connection, whatever host the URL names.
  if (parameters === undefined || parameters.has('host') || parameters.has('port'))
    return undefined;
  return { name: `${host}:${port || DEFAULT_PORT}`, url: checked(url) };
}

/** With `uselibpqcompat`, pg follows libpq and prints no warning. */
function checked(url: string): string {
  return url.includes('uselibpqcompat=') ? url : url.replace(CHECKED_MODES, '$1verify-full');
}

function parse(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const wanted = url.searchParams.getAll('target_session_attrs');
  return /^postgres(ql)?:$/.test(url.protocol) && wanted.every((one) => SESSION_ATTRIBUTES.has(one))
    ? url
    : undefined;
}
