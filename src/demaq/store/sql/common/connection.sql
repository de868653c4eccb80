-- name: commit
COMMIT

-- name: rollback
ROLLBACK
