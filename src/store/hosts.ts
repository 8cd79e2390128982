/** One server of a database URL. */
export interface Host {
  /** Host and port, for messages: a URL can have a password in it. */
  readonly name: string;
  /** The URL with this host alone. */
  readonly url: string;
}

const MAX_HOSTS = 16;
const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/is;
const HOST = /^(\[[0-9a-f:.]+\]|[^\s:[\]]+)(?::(\d*))?$/i;
/**
 * pg takes these for verify-full, too, and writes so to standard error. In libpq they check less.
 */
const CHECKED_MODES = /([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/;
const DEFAULT_PORT = '5432';
/** Three names for the one server that a vault is on. What asks for a standby is refused. */
const SESSION_ATTRIBUTES = new Set(['read-write', 'primary', 'any']);

/**
 * The hosts of a database URL, at least one: `postgres://user@host1:5432,host2:5433/name`, the form
 * of libpq, which pg does not know. undefined: no such URL.
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
  // pg would take these for the host of every connection.
  if (parameters === undefined || parameters.has('host') || parameters.has('port'))
    return undefined;
  return { name: `${host}:${port || DEFAULT_PORT}`, url: checked(url) };
}

/** With `uselibpqcompat`, pg does as libpq, and says nothing. */
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
