"""Trains on all GPUs of a machine at once, to the numbers of one."""

import keras
import tensorflow as tf

from keras_bahdanau import FusedLossModel
from keras_bahdanau.losses import count_of


@keras.saving.register_keras_serializable(package="keras_bahdanau_paper")
class DistributedLossModel(FusedLossModel):
    """`FusedLossModel` for a `tf.distribute` strategy, made and compiled in its scope.

    The loss is a mean over the words, or the sentences, of a whole batch, and its
    gradient is clipped as one. Keras knows neither of the two: it would take the mean
    of the means of the replicas, and clip what each of them has before it adds them
    up. Here the gradients are added up first, and each replica hands its share of
    their sum to the optimizer, which clips it at its share of the norm.
    """

    def compile(self, optimizer, **options):
        count = tf.distribute.get_strategy().num_replicas_in_sync
        optimizer.global_clipnorm = optimizer.global_clipnorm / count
        super().compile(optimizer, **options)

    def train_step(self, data):
        x, y = data
        replica = tf.distribute.get_replica_context()
        count = replica.num_replicas_in_sync
        own = count_of(tf.not_equal(y, 0), self.average_over)
        # `compute_loss` divides the mean of a replica by their count, as Keras does.
        share = count * own / replica.all_reduce("SUM", own)
        with tf.GradientTape() as tape:
            hidden = self(x, training=True)
            loss = self.compute_loss(x, y, hidden) * share
        weights = self.trainable_weights
        gradients = [tf.convert_to_tensor(one) for one in tape.gradient(loss, weights)]
        gradients = replica.all_reduce("SUM", gradients)
        self.optimizer.apply_gradients(
            [(one / count, weight) for one, weight in zip(gradients, weights)]
        )
        for metric in self.metrics:
            if metric.name == "loss":
                # The replicas have as many pairs each; this is their mean.
                metric.update_state(loss * count, sample_weight=tf.shape(y)[0])
        return self.get_metrics_result()
