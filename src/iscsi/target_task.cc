#include "iscsi/target_task.h"

#include <algorithm>
#include <utility>

#include "iscsi/completion_queue.h"

namespace weft::iscsi {

void TargetTask::handle_completion(scsi::Command& /*command*/, const scsi::Completion& ended) {
  completion = ended;
  // The queue may outlive the task's last owner, and the other way round.
  const std::shared_ptr<CompletionQueue> queue = completions;
  queue->push(std::exchange(self_, nullptr));
}

// What is lent in one piece, as what is read at random mostly is, goes from where it lies.
void TargetTask::collect_read_data() {
  if (lent.size() == 1) {
    read_data = {.holder = lent.front().holder, .octets = lent.front().octets};
    return;
  }
  MutableByteSpan rest = data_in.octets();
  for (const scsi::BlockLoan& loan : lent) {
    const std::size_t bytes = std::min(rest.size(), loan.octets.size());
    copy_bytes(rest, loan.octets.first(bytes));
    rest = rest.subspan(bytes);
  }
  lent.clear();
  read_data = data_in.part(0, data_in.size());
}

}  // namespace weft::iscsi
