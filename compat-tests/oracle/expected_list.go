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
	except(`^incremental alter configs/broker/`, `( threads: |\.\{background\.threads\}\.)`,
		"there is no such pool here whose size could change; a change that nothing applies is refused"),
	except(`^alter configs/broker/`, `( another instead: |^4 DescribeConfigs v4: .*\.(Source|Value)$)`, "as above: what was set before stays"),
	except(`^consumer group/fetch/`, ` anonymous with an epoch: .*\.ErrorCode$`,
		"Kafka looks up a null member id in a map that takes none; 25 says what is wrong"),
	except(`^api versions/`, `\.ApiKeys\.\{(38|39|40|41|48|49|76|77|78|79|83|84|85|86|87|88|89|90|91|92|93)\}`,
		"keys of later issues: security, admin, cluster, share and streams groups"),
	except(`^api versions/`, `\.(SupportedFeatures|FinalizedFeatures)\.\{(share|streams)\.version\}`,
		"features of later issues"),
	except(`^describe configs/broker/`, `\.Configs\.\{(controller\.quorum\.bootstrap\.servers|listeners)\}`,
		"the harness gives Kafka a controller listener, which we do not need"),
	except(`^describe quorum/good/v2$`, `\.Nodes\.\{\}\.Listeners$`, "as above: there is no controller listener to be shown"),
	except("framing/bodies/key 24/v[45]", "trailing bytes", "Kafka never answers a batch of no transactions, and the connection is stuck; we answer it"),
	except("^scram/alter errors/", " empty password: .*ErrorMessage$", "Kafka's -1 is an exception that it did not foresee, without words; ours has some"),
}

var aclExceptions = []exception{
	except("^acl/create odd acls/", " (any type|any pattern|match|any operation|any permission): ",
		"an ACL that reads as a filter fails Kafka's whole request with an error that it did not foresee; we refuse that ACL and make the other"),
}

var saslExceptions = []exception{
	except("^sasl/scram refused/", " an unknown user: ", "Kafka tells at the first step that there is no such user; we go on to the last, as for a wrong password"),
	except("^sasl/scram refused/", " an extension that must be known: ", "Kafka ignores it; RFC 5802 has the server refuse it, and so do we"),
	except("^sasl/states$", " Metadata v1 after the handshake: ", "Kafka answers in the form of what was asked, and closes; we close"),
}
