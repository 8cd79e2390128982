/** What the parts of the service are given to work with. `config/` makes it of the settings. */
export interface VaultOptions {
  /** undefined: the embedded database in dataDir. */
  readonly databaseUrl: string | undefined;
  readonly databaseConnections: number;
  readonly dataDir: string;
  readonly kek: KekSettings;
  readonly token_suffix: string;
  readonly allowUnsafePostgres: boolean;
}

/** Of a listener: files in PEM. */
export interface TlsFiles {
  readonly certificateFile: string;
  readonly keyFile: string;
  /** undefined: callers need no certificate. */
  readonly clientCaFile: string | undefined;
}

export interface LicenseFiles {
  readonly licenseFile: string;
  readonly publicKeyFile: string;
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
  readonly keyId: string;
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
  readonly caFile: string | undefined;
  /** Before `token`; one of them is set. */
  readonly tokenFile: string | undefined;
  readonly token: string | undefined;
}
