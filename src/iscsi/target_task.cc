#include "iscsi/target_task.h"

#include <utility>

#include "iscsi/completion_queue.h"

namespace weft::iscsi {

void TargetTask::handle_completion(scsi::Command& /*command*/, const scsi::Completion& ended) {
  completion = ended;
  // The queue may outlive the task's last owner, and the other way round.
  const std::shared_ptr<CompletionQueue> queue = completions;
  queue->push(std::exchange(self_, nullptr));
}

}  // namespace weft::iscsi
