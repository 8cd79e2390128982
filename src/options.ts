/** What the parts of the service are given to work with. `config/` makes it of the settings. */
export interface VaultOptions {
  /** undefined: the embedded database in data_dir. */
  readonly database_url: string | undefined;
  readonly database_connections: number;
  readonly data_dir: string;
  readonly kek: KekSettings;
  readonly token_suffix: string;
  readonly allow_unsafe_postgres: boolean;
}

/** Of a listener: files in PEM. */
export interface TlsFiles {
  readonly certificate_file: string;
  readonly key_file: string;
  /** undefined: callers need no certificate. */
  readonly client_ca_file: string | undefined;
}

export interface LicenseFiles {
  readonly license_file: string;
  readonly public_key_file: string;
}

/** Which source the KEK comes from: the settings that name it. Plain data; has secrets in it. */
export interface KekSettings {
  /** undefined without a command: `kek` in the data folder, made with an embedded vault. */
  readonly file: string | undefined;
  /** A command line that prints the KEK. */
  readonly command?: string;
  /** What decrypts the file; without, it is in clear. */
  readonly aws_kms?: AwsKmsSettings;
  readonly transit?: TransitSettings;
}

export interface AwsKmsSettings {
  /** Id, alias or ARN. */
  readonly key_id: string;
  readonly region: string;
  /** undefined: the public one of the region. */
  readonly endpoint: string | undefined;
  /** undefined: those that the AWS SDK finds: profile, web identity, container, instance. */
  readonly credentials: AwsCredentials | undefined;
}

export interface AwsCredentials {
  readonly access_key_id: string;
  readonly secret_access_key: string;
  readonly session_token: string | undefined;
}

/** The transit engine of HashiCorp Vault or OpenBao. */
export interface TransitSettings {
  readonly url: string;
  readonly key: string;
  readonly mount: string;
  readonly namespace: string | undefined;
  /** undefined: the authorities that Node knows. */
  readonly ca_file: string | undefined;
  /** Before `token`; one of them is set. */
  readonly token_file: string | undefined;
  readonly token: string | undefined;
}
