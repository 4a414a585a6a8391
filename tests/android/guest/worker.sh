# Burn some CPU as the uid that init gave.
i=0
while [ $i -lt 20000 ]; do i=$((i + 1)); done
