#!/usr/bin/env bash
# An extension of zk: a gate that refuses force pushes. One message a line; requests have an id.
while IFS= read -r line; do
    id=${line#*'"id":'}
    id=${id%%,*}
    case $line in
    *'"method":"hello"'*) result='{"protocol":"1.0","register":{"asks":[{"event":"tool:gate"}]}}' ;;
    *'push --force'* | *'push -f'*) result='{"decision":"refuse","reason":"no force push here"}' ;;
    *'"method":"event/ask"'*) result=null ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
