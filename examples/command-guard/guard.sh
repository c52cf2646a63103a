#!/usr/bin/env bash
# A guard of zk: reads one event a line, answers those that want a reply.
while IFS= read -r line; do
    case $line in *'"reply":true'*) ;; *) continue ;; esac
    id=${line#'{"id":'}
    id=${id%%,*}
    case $line in
    *'push --force'* | *'push -f'*)
        printf '{"id":%s,"reply":{"decision":"refuse","reason":"no force push here"}}\n' "$id" ;;
    *) printf '{"id":%s,"reply":null}\n' "$id" ;;
    esac
done
