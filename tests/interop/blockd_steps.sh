# What both guests of blockd.sh run: a serves, b is the client.
sync_mount
rxe_up rxe0 eth0; sleep 1
export LD_LIBRARY_PATH=/extra/lib WEFT_EXPLAIN=1 WEFT_HOST="$(hostname)" WEFT_RUN=/tmp/weft
mkdir -p $WEFT_RUN
size="--port 7770 --bytes 1048576"
check="timeout 60 /extra/bin/blockd++ check $A $size --seconds 40"
serve="timeout -k 10 120 /extra/bin/blockd++ serve $size"
module="timeout -k 10 120 /extra/bin/weft-module run /extra/bin/blockd.so port=7770 bytes=1048576"
step ping true "ping -c 2 -W 2 $A"
step module -c "$module" "$check"
step blockd++ -c "$serve" "$check"
step module_rounds "$module" "$check --rounds 3"
step blockd++_rounds "$serve" "$check --rounds 3"
step no_listener true "$check; [ \$? != 0 ]"
sync_set end.$(hostname); sync_wait end.a 60; sync_wait end.b 60
exit $STEPFAIL
