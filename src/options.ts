import type { KekSettings } from './kek/source.ts';

/** Hosts that only this machine reaches, as settings and URLs have them. */
export const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i;

/** Options of the parts of the service. `config/` makes them from the settings. */
export interface VaultOptions {
  /** undefined: the embedded database in dataDir. */
  readonly databaseUrl: string | undefined;
  readonly databaseConnections: number;
  readonly dataDir: string;
  readonly kek: KekSettings;
  readonly token_suffix: string;
  readonly allowUnsafePostgres: boolean;
}

/** A secret of the admin API, and who uses it. */
export type AdminToken = Readonly<Record<'name' | 'token', string>>;

/** Files of a listener, in PEM. */
export interface TlsFiles {
  readonly certificateFile: string;
  readonly keyFile: string;
  /** undefined: callers need no certificate. */
  readonly clientCaFile: string | undefined;
}

/** Whose JWTs are accepted. */
export interface JwtOptions {
  readonly issuer: string;
  readonly audience: string;
  /** undefined: found by OpenID Connect Discovery. */
  readonly jwksUrl: string | undefined;
  /** The claim that is the subject of a client. */
  readonly claim: string;
  /** Of its header; undefined: any. */
  readonly type?: string | undefined;
}

export type LicenseFiles = Readonly<Record<'licenseFile' | 'publicKeyFile', string>>;
