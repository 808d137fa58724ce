package main

import "regexp/syntax"

// key is a row for a key that begins with one of the hints, which are in lower case.
func key(class, pattern string, bits float64, hints ...string) token {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err)
	}
	return token{
		class: class, pattern: `(?:^|[^A-Za-z0-9_])(` + pattern + `)`, bits: bits, hints: hints, run: least(re),
	}
}

// ending is a row for a key that has at least so many characters before the hint.
func ending(class, pattern string, bits float64, before int, hints ...string) token {
	t := key(class, pattern, bits, hints...)
	t.run, t.before = 0, before
	return t
}

// beside is a row for a value that is recognised by what is around it.
func beside(class, pattern string, bits float64, hints ...string) token {
	return token{class: class, pattern: pattern, bits: bits, hints: hints}
}

// further are the shapes that gitleaks lacks, or has more narrowly: a token that a page shows cut off, or a new kind
// with an old prefix. Their classes come first, so that tags keep their names.
func further() []token {
	var all []token
	for _, group := range [][]token{models(), clouds(), code(), services(), people(), contexts(), anyway()} {
		all = append(all, group...)
	}
	return all
}

// models are keys of services that run models, and of those around them.
func models() []token {
	return []token{
		key("anthropic_key", `sk-ant-[\w-]{20,}`, 3.3, "sk-ant-"),
		key("openai_key", `sk-(?:proj-|svcacct-|admin-)?[\w-]{20,}`, 3.5, "sk-"),
		key("google_key", `AIza[\w-]{35}|GOCSPX-[\w-]{28}|ya29\.[\w-]{20,}`, 3.3, "aiza", "gocspx-", "ya29."),
		key("google_key", `1//0[\w-]{30,}`, 3.5, "1//0"),
		key("huggingface_token", `(?:hf|api_org)_[A-Za-z0-9]{30,}`, 3.5, "hf_", "api_org_"),
		key("nvidia_key", `nvapi-[\w-]{40,}`, 3.5, "nvapi-"),
		key("replicate_token", `r8_[A-Za-z0-9]{37}`, 3.5, "r8_"),
		key("groq_key", `gsk_[A-Za-z0-9]{40,}`, 3.5, "gsk_"),
		key("xai_key", `xai-[A-Za-z0-9]{40,}`, 3.5, "xai-"),
		key("perplexity_key", `pplx-[A-Za-z0-9]{40,}`, 3.5, "pplx-"),
		key("langsmith_key", `lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}`, 3, "lsv2_"),
		key("tavily_key", `tvly-[\w-]{24,}`, 3.5, "tvly-"),
		key("pinecone_key", `pcsk_[A-Za-z0-9]+_[A-Za-z0-9]{40,}`, 3.5, "pcsk_"),
		key("e2b_key", `e2b_[0-9a-f]{40}`, 3, "e2b_"),
		key("together_key", `tgp_v1_[\w-]{40,}`, 3.5, "tgp_v1_"),
		key("jina_key", `jina_[A-Za-z0-9]{50,}`, 3.5, "jina_"),
		key("fireworks_key", `fw_[A-Za-z0-9]{20,}`, 3.5, "fw_"),
		key("voyage_key", `(?:pa|al)-[A-Za-z0-9_-]{40,}`, 4, "pa-", "al-"),
		key("cerebras_key", `csk-[a-z0-9]{40,}`, 3.5, "csk-"),
		key("firecrawl_key", `fc-[0-9a-f]{32}`, 3, "fc-"),
		key("modal_token", `a[ks]-[A-Za-z0-9]{22}`, 3.8, "ak-", "as-"),
		key("braintrust_key", `bt-st-[A-Za-z0-9]{40,}`, 3.5, "bt-st-"),
		key("runpod_key", `rpa_[A-Z0-9]{40,}`, 3.5, "rpa_"),
		key("apify_token", `apify_api_[A-Za-z0-9]{34,}`, 3.5, "apify_api_"),
		key("exa_key", `exa_[A-Za-z0-9]{30,}`, 3.5, "exa_"),
		key("elevenlabs_key", `sk_[0-9a-f]{48}`, 3, "sk_"),
		key("wandb_key", `wandb_v1_[\w-]{40,}`, 3.5, "wandb_v1_"),
	}
}

// clouds are keys of clouds, databases and what runs on them.
func clouds() []token {
	return []token{
		key("aws_key_id", `(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`, 3, "akia", "asia", "abia", "acca"),
		beside("aws_secret", `(?:AKIA|ASIA)[A-Z2-7]{16}\b[^A-Za-z0-9]{1,12}(?:[A-Za-z_]{0,30}[^A-Za-z0-9]{1,12})?`+
			`([A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/=]|$)`, 4, "akia", "asia"),
		key("digitalocean_token", `do[opr]_v1_[0-9a-f]{64}`, 3, "doo_v1_", "dop_v1_", "dor_v1_"),
		key("databricks_token", `dapi[0-9a-f]{32}(?:-\d)?`, 3, "dapi"),
		key("terraform_token", `[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}`, 3.5, ".atlasv1."),
		key("vault_token", `hv[sbr]\.[\w-]{24,}`, 3.5, "hvs.", "hvb.", "hvr."),
		beside("vault_token", `(?i)vault[^\n]{0,80}?\b(s\.(?-i:[A-Za-z0-9]{24}))\b`, 3.5, "vault"),
		key("heroku_key", `HRKU-[\w-]{36,}`, 3, "hrku-"),
		key("planetscale_token", `pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}`, 3.5, "pscale_"),
		key("doppler_token", `dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}`, 3.5, "dp."),
		key("netlify_token", `nf[pcu]_[A-Za-z0-9]{36,}`, 3.5, "nfp_", "nfc_", "nfu_"),
		key("vercel_token", `vc[pkiar]_[A-Za-z0-9]{50,}`, 3.5, "vcp_", "vck_", "vci_", "vca_", "vcr_"),
		key("fly_token", `f(?:m[12]|o1)_[\w+/=-]{40,}`, 3.5, "fm1_", "fm2_", "fo1_"),
		key("pulumi_token", `pul-[0-9a-f]{40}`, 3, "pul-"),
		key("supabase_key", `sb[ps]?_(?:secret_|publishable_)?[\w-]{30,}`, 3.5, "sb_", "sbp_", "sbs_"),
		key("age_key", `AGE-SECRET-KEY-1[0-9A-Z]{58}`, 3.5, "age-secret-key-"),
		key("tailscale_key", `tskey-[a-z]+-[A-Za-z0-9-]{20,}`, 3, "tskey-"),
		key("ngrok_token", `(?:2[A-Za-z0-9]{26}|[3-9][A-Za-z0-9]{26})_[A-Za-z0-9]{21,22}`, 4, "ngrok"),
		key("neon_key", `napi_[a-z0-9]{60,}`, 3.5, "napi_"),
		key("upstash_token", `upstash_[A-Za-z0-9]{30,}`, 3.5, "upstash_"),
		key("cloudflare_token", `cf(?:ut|at|k)_[\w-]{40,}`, 3.5, "cfut_", "cfat_", "cfk_"),
		beside("gcp_key_id", `"private_key_id"\s*:\s*"([0-9a-f]{40})"`, 3, "private_key_id"),
		beside("azure_key", `(?i)(?:accountkey|sharedaccesskey|accesskey)["']?\s*[:=]\s*["']?([A-Za-z0-9+/]{43,86}==?)`, 4,
			"accountkey", "accesskey"),
		key("scaleway_key", `SCW[A-Z0-9]{17}\b`, 3, "scw"),
		key("oracle_token", `ocid1\.credential\.[\w.]{40,}`, 3, "ocid1.credential"),
		key("alibaba_key_id", `LTAI[A-Za-z0-9]{16,20}\b`, 3, "ltai"),
		key("tencent_key_id", `AKID[A-Za-z0-9]{32}`, 3.5, "akid"),
		key("ibm_key", `ApiKey-[0-9a-f-]{36}`, 3, "apikey-"),
		key("confluent_key", `cflt[A-Za-z0-9+/]{60}`, 3.5, "cflt"),
	}
}

// code are keys of what code lives in and is built and published with.
func code() []token {
	return []token{
		key("github_token", `github_pat_\w{22}_\w{59}`, 3.5, "github_pat_"),
		key("gitlab_token", `(?:glpat|gldt|glrt|glsoat|glcbt|glptt|glft)-[\w-]{20,}`, 3, "glpat-", "gldt-", "glrt-",
			"glsoat-", "glcbt-", "glptt-", "glft-"),
		key("pypi_token", `pypi-AgE[\w-]{40,}`, 3.5, "pypi-age"),
		key("bitbucket_token", `ATBB[A-Za-z0-9]{32}|ATCTT3[\w=-]{60,}`, 3.5, "atbb", "atctt3"),
		key("atlassian_token", `ATATT3[\w=-]{60,}`, 3.5, "atatt3"),
		key("docker_token", `dckr_(?:pat|oat)_[\w-]{24,}`, 3.5, "dckr_"),
		key("sonar_token", `sq[pua]_[0-9a-f]{40}`, 3, "squ_", "sqp_", "sqa_"),
		key("artifactory_key", `AKCp[A-Za-z0-9]{10,}|cmVmd[A-Za-z0-9]{59}`, 3.5, "akcp", "cmvmd"),
		key("nuget_key", `oy2[a-z0-9]{43}`, 3.5, "oy2"),
		key("rubygems_key", `rubygems_[0-9a-f]{48}`, 3, "rubygems_"),
		key("crates_token", `cio[A-Za-z0-9]{32}\b`, 4, "cio"),
		key("buildkite_token", `bk[a-z]{2}_[0-9a-f]{40}`, 3, "bkua_", "bkpt_", "bkrt_", "bkaj_"),
		key("circleci_token", `CCI(?:PAT|PRJ)_[A-Za-z0-9]{20,}_[0-9a-f]{40}`, 3, "ccip"),
		key("sentry_token", `sntry[su]_[\w+/=-]{40,}`, 3.5, "sntrys_", "sntryu_"),
		key("grafana_token", `gl(?:sa|c)_[\w+/=]{32,}`, 3.5, "glsa_", "glc_"),
		key("newrelic_key", `NRAK-[A-Z0-9]{27}|NRII-[\w-]{32}|NRJS-[0-9a-f]{19}`, 3, "nrak-", "nrii-", "nrjs-"),
		key("dynatrace_token", `dt0[a-z]\d\d\.[A-Z2-7]{24}\.[A-Z2-7]{64}`, 3, "dt0"),
		key("launchdarkly_key", `(?:sdk|mob|api)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, 3, "sdk-",
			"mob-", "api-"),
		key("postman_key", `PMAK-[0-9a-f]{24}-[0-9a-f]{34}`, 3, "pmak-"),
		key("snyk_token", `snyk_(?:uat|sat)\.[\w.-]{40,}`, 3.5, "snyk_"),
		key("honeycomb_key", `hc[abe]ik_[a-z0-9]{50,}`, 3.5, "hcaik_", "hcbik_", "hceik_"),
		key("posthog_key", `ph[cx]_[A-Za-z0-9]{40,}`, 3.5, "phc_", "phx_"),
		key("travis_token", `trv_[A-Za-z0-9]{30,}`, 3.5, "trv_"),
		key("cargo_token", `crates-io_[A-Za-z0-9]{30,}`, 3.5, "crates-io_"),
		key("hex_key", `hex_[0-9a-f]{32}`, 3, "hex_"),
	}
}

// services are keys of services for payments, mail, messages and data.
func services() []token {
	return []token{
		key("slack_token", `xox[abeoprs]-[\w-]{10,}|xapp-\d-[\w-]{20,}`, 2.8, "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-",
			"xoxr-", "xoxs-", "xapp-"),
		beside("slack_webhook", `hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,})`, 2, "hooks.slack.com"),
		key("stripe_key", `(?:sk|rk|pk|whsec)_(?:live_|test_|prod_)?[A-Za-z0-9]{16,}`, 3.3, "sk_", "rk_", "pk_", "whsec_"),
		key("sendgrid_key", `SG\.[\w-]{20,24}\.[\w-]{39,50}`, 3.5, "sg."),
		key("twilio_key", `(?:SK|AC)[0-9a-f]{32}\b`, 3, cross([]string{"sk", "ac"}, hexDigits...)...),
		key("mailgun_key", `key-[0-9a-f]{32}\b`, 3, "key-"),
		ending("telegram_token", `\d{8,10}:AA[\w-]{33}`, 3.5, 8, ":aa"),
		key("shopify_token", `shp(?:at|ca|pa|ss|tka|ua)_[0-9a-fA-F]{32}`, 3, "shpat_", "shpca_", "shppa_", "shpss_",
			"shptka_", "shpua_"),
		key("square_token", `(?:sq0[a-z]{3}-[\w-]{22,43}|EAAA[\w-]{60})`, 3.3, "sq0", "eaaa"),
		key("linear_key", `lin_(?:api|oauth)_[A-Za-z0-9]{32,}`, 3.5, "lin_"),
		key("figma_token", `figd_[\w-]{36,}`, 3.5, "figd_"),
		key("airtable_token", `pat[A-Za-z0-9]{14}\.[0-9a-f]{64}`, 3, "pat"),
		key("notion_token", `(?:ntn|secret)_[A-Za-z0-9]{40,}`, 3.5, "ntn_", "secret_"),
		key("dropbox_token", `sl\.(?:u\.)?[\w-]{100,}`, 4, "sl."),
		ending("mailchimp_key", `[0-9a-f]{32}-us\d{1,2}\b`, 3, 32, "-us"),
		key("brevo_key", `x(?:keysib|smtpsib)-[0-9a-f]{64}-[A-Za-z0-9]{16}`, 3, "xkeysib-", "xsmtpsib-"),
		key("razorpay_key", `rzp_live_[A-Za-z0-9]{14}`, 3, "rzp_live_"),
		key("mapbox_token", `[sp]k\.eyJ[\w-]{20,}\.[\w-]{20,}`, 3.5, "sk.eyj", "pk.eyj"),
		key("paypal_token", `access_token\$production\$[0-9a-z]{16}\$[0-9a-f]{32}`, 3, "access_token$"),
		key("contentful_token", `CFPAT-[\w-]{40,}`, 3.5, "cfpat-"),
		key("fcm_key", `AAAA[\w-]{7}:APA91b[\w-]{100,}`, 4, "aaaa"),
		key("asana_token", `[12]/\d{10,}(?:/\d{10,})?:[0-9a-f]{32}`, 3, cross([]string{"1/", "2/"}, digits...)...),
		key("okta_token", `00[A-Za-z0-9_-]{40}`, 4.2, cross([]string{"00"}, alphanumerics...)...),
		key("mailersend_key", `mlsn\.[0-9a-f]{60,}`, 3, "mlsn."),
		key("resend_key", `re_[A-Za-z0-9]{6,}_[A-Za-z0-9]{20,}`, 3.5, "re_"),
		key("zapier_token", `zpka_[0-9a-f]{32}_[0-9a-f]{8}`, 3, "zpka_"),
		key("segment_token", `sgp_[A-Za-z0-9]{40,}`, 3.5, "sgp_"),
		key("adyen_key", `AQE[\w+/=.-]{60,}`, 4, "aqe"),
		key("plaid_token", `(?:access|public)-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f-]{27}`, 3,
			"access-sandbox-", "access-production-", "access-development-", "public-sandbox-", "public-production-"),
		key("facebook_token", `EAA[A-Za-z0-9]{90,}`, 4, "eaa"),
		key("mercadopago_token", `APP_USR-\d{10,}-\d{6}-[0-9a-f]{32}-\d{6,}`, 3, "app_usr-"),
		key("typeform_token", `tfp_[\w.-]{40,}`, 3.5, "tfp_"),
		key("cloudinary_url", `cloudinary://\d{10,}:[\w-]{20,}`, 3.5, "cloudinary://"),
	}
}

// people are keys and hashes that are a person's or a machine's own.
func people() []token {
	return []token{
		key("onepassword_token", `ops_eyJ[A-Za-z0-9+/=_-]{60,}`, 3.8, "ops_eyj"),
		beside("password_hash", `(\$(?:1|2[abxy]|5|6|7|y|gy|apr1|argon2(?:id?|d)|scrypt|pbkdf2-sha\d+|P|H)\$?`+
			`[./A-Za-z0-9$=,+-]{20,})`, 3, "$1$", "$2a$", "$2b$", "$2x$", "$2y$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$apr1$",
			"$argon2", "$scrypt$", "$pbkdf2-", "$p$b", "$h$"),
		beside("password_hash", `(\{(?:S?SHA(?:256|512)?|SMD5|CRYPT)\}[A-Za-z0-9+/=.$]{16,})`, 3, "{sha", "{ssha", "{smd5}",
			"{crypt}"),
		beside("password_hash", `((?:pbkdf2_sha\d+|bcrypt_sha256|argon2)\$[\w./$=,+-]{30,})`, 3, "pbkdf2_sha", "bcrypt_sha256$",
			"argon2$"),
		beside("jwk", `"(?:d|k)"\s*:\s*"([A-Za-z0-9_-]{40,})"`, 4, `"d"`, `"k"`),
		beside("wallet_key", `(?i)priv(?:ate)?[_ -]?key["'\s:=(]{1,5}(?:0x)?([0-9a-f]{64})\b`, 3, "private_key", "private key",
			"privatekey", "private-key", "privkey", "priv_key"),
		beside("seed_words", `(?i)(?:seed|mnemonic|recovery)(?:[ _-]?(?:phrase|words))?["']?\s*(?:is|[:=])\s*["']?`+
			`((?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b`, 2, "seed", "mnemonic", "recovery"),
		key("discord_mfa", `mfa\.[\w-]{80,}`, 4, "mfa."),
	}
}

// contexts are secrets that only what is around them tells.
func contexts() []token {
	return []token{
		beside("url_password", `[\w.-]+:([^\s:@/"'()]{3,})@(?:tcp|unix|udp)\(`, 1, "@tcp(", "@unix(", "@udp("),
		beside("secret", `\bredis-cli\b[^\n|;&]{0,200}? -a\s+["']?([^\s"'$]{4,})`, 1, "redis-cli"),
		beside("wandb_key", `\bwandb\s+login\s+(?:--\S+\s+)*([0-9a-f]{40})`, 3, "wandb"),
		beside("secret", `\bpsk\s*=\s*"?([^"\s]{8,63})`, 2.5, "psk=", "psk ="),
		beside("secret", `(?i)\b(?:bindpw|rootpw|olcRootPW)\s*[:=\s]\s*["']?([^\s"']{4,})`, 1.5, "bindpw", "rootpw"),
		beside("secret", `(?m)^[\w.*-]+:(?:\d{4,5}|\*):[\w*-]+:[\w*-]+:([^\s:]{6,})\r?$`, 2, ":543", ":643", ":*:"),
		beside("secret", `(?i)\b(?:password|passphrase|passcode)(?: for [\w. -]{1,40}?)? (?:is|was)[: ]+`+
			`["'\x60]?([^\s"'\x60,;]{5,}[^\s"'\x60,;.!?])`, 0, "password is", "password was", "password for", "passphrase is",
			"passcode is"),
		beside("secret", `(?im)^\s*["']?[\w.-]*(?:password|passwd|passphrase)["']?\s*[:=]\s*["']?`+
			`([^\s"'<>(){}\[\]$]{5,}[!@#%^&*+?~][^\s"'<>(){}]*)["']?,?\s*$`, 2.5, "password", "passwd", "passphrase"),
		beside("secret", `(?i)<add key="(?:ClearText)?Password"\s*value="([^"]{8,})"`, 2, "<add key="),
		beside("secret", `(?i)<(?:password|token|secret|api_?key)>([^<\s]{6,})</`, 0, "<password>", "<token>", "<secret>",
			"<apikey>", "<api_key>"),
		beside("wallet_key", `(?i)\bwif["'\s:=]{1,5}((?-i:[5KL][1-9A-HJ-NP-Za-km-z]{50,51}))\b`, 4, "wif"),
	}
}

// anyway are tokens that begin like one of a service, whatever follows: shortened, or of a new kind. They have to look
// random.
func anyway() []token {
	return []token{
		key("aws_key_id", `(?:AKIA|ASIA)[0-9A-Z]{16}`, 2.5, "akia", "asia"),
		key("google_key", `AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{16,}`, 3, "aiza", "ya29."),
		key("secret", `(?:hf|gh[pousr]|github_pat|gsk|r8|npm|pypi|dop_v1|shpat|sk_live|sk_test|rk_live|pk_live|whsec|`+
			`api_org|dapi)_[A-Za-z0-9_]{8,}`, 0, "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "gsk_", "r8_",
			"npm_", "pypi_", "dop_v1_", "shpat_", "sk_live_", "sk_test_", "rk_live_", "pk_live_", "whsec_", "api_org_", "dapi_"),
		key("secret", `(?:sk|nvapi|glpat|xox[abeprs]|pypi|gsk|fw|pplx|xai|tvly|lsv2|dapi|key)-[A-Za-z0-9_-]{10,}`, 0, "sk-",
			"nvapi-", "glpat-", "xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "pypi-", "gsk-", "fw-", "pplx-", "xai-",
			"tvly-", "lsv2-", "dapi-", "key-"),
	}
}
