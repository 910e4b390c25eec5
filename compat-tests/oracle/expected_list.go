package oracle

var exceptions = []exception{
	except(`^produce/broken batches/`, ` null records: $`,
		"Kafka never answers a null records field, and the connection hangs; we answer 87"),
	except(`^produce/records lie/`, ` varint too long, codec 0: .*\.ErrorCode$`,
		"Kafka's -1 is an exception that it did not foresee; 87 says what is wrong"),
	except(`^produce/records lie/`, ` record length too (large|small), codec 1: `,
		"Kafka skims compressed records and lets a wrong record length pass, which consumers then fail on; we refuse it with 87"),
	except(`^alter configs/errors/`, ` a resource twice: $`,
		"Kafka never answers AlterConfigs that names a resource twice; we answer 42, as its IncrementalAlterConfigs does"),
	except(`^api versions/`, `\.ApiKeys\.\{(24|25|26|27|28|61|65|66|68|69)\}`,
		"keys of issue B: transactions and KIP-848 groups"),
	except(`^api versions/`, `\.ApiKeys\.\{(34|38|39|40|41|43|45|46|48|49|50|51|55|57|64|76|77|78|79|80|81|83|84|85|86|87|88|89|90|91|92|93|94)\}`,
		"keys of later issues: security, admin, cluster, share and streams groups"),
	except(`^api versions/`, `\.(SupportedFeatures|FinalizedFeatures)\.\{(eligible\.leader\.replicas|group|kraft|share|streams|transaction)\.version\}`,
		"features of later issues"),
	except(`^(create topics|describe configs)/`, `\.Configs\.\{min\.insync\.replicas\}\.(Source|ConfigSynonyms)$`,
		"Kafka's format step writes min.insync.replicas=1 as a cluster-wide dynamic config because it turns ELR on; ELR is of the cluster issue"),
	except(`^describe configs/broker/`, ` cluster-wide default: \.Resources\.\{\}\.Configs$`,
		"as above: the only cluster-wide dynamic config that Kafka has from the start"),
	except(`^describe configs/broker/`, `\.Configs\.\{(controller\.quorum\.voters|listeners)\}`,
		"the harness gives Kafka a controller listener, which we do not need"),
}
